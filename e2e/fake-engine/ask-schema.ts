/** What the OpenAI-shaped routes accept, loosely: what a field means is checked, unknown fields are left alone (or refused by a strict server, see `unknownField`). */
import { z } from 'zod';
import type { ChatMessage, Tool } from './chat-template.ts';
import type { GenerationAsk } from './generation.ts';

const contentPart = z.looseObject({ type: z.string(), text: z.string().nullish() });
const content = z.union([z.string(), z.array(contentPart)]).nullish();
const message = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content,
  reasoning_content: z.string().nullish(),
  reasoning: z.string().nullish(),
  tool_calls: z.array(z.looseObject({ id: z.string(), function: z.looseObject({ name: z.string(), arguments: z.string() }) })).nullish(),
  tool_call_id: z.string().nullish(),
});
const tool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({ name: z.string(), description: z.string().optional(), parameters: z.unknown().optional() }),
});
const toolChoice = z.union([z.enum(['auto', 'none', 'required']), z.looseObject({ function: z.looseObject({ name: z.string() }) })]);

const sampling = {
  model: z.string(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.int().min(1).max(128).nullish(),
  max_tokens: z.int().min(1).nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().nullish(),
  seed: z.int().nullish(),
  // vLLM
  stop_token_ids: z.array(z.int()).nullish(),
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  // SGLang, only without `stream` in chat
  return_prompt_token_ids: z.boolean().nullish(),
  return_meta_info: z.boolean().nullish(),
};

export const chatSchema = z.looseObject({
  ...sampling,
  messages: z.array(message).min(1),
  tools: z.array(tool).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  chat_template_kwargs: z.looseObject({ enable_thinking: z.boolean().optional() }).nullish(),
});
export type ChatBody = z.infer<typeof chatSchema>;

export const completionsSchema = z.looseObject({
  ...sampling,
  prompt: z.union([z.string(), z.array(z.int()).min(1)]),
  logprobs: z.int().min(0).max(20).nullish(),
  echo: z.boolean().nullish(),
  // vLLM
  prompt_logprobs: z.int().min(0).max(20).nullish(),
});
export type CompletionsBody = z.infer<typeof completionsSchema>;

/** Fields OpenAI's own server knows; it refuses any other by name. */
const OPENAI_FIELDS = new Set(
  'model messages prompt stream stream_options n max_tokens max_completion_tokens stop temperature top_p seed tools tool_choice parallel_tool_calls logprobs top_logprobs echo user metadata store response_format reasoning_effort frequency_penalty presence_penalty logit_bias service_tier modalities audio prediction verbosity prompt_cache_key safety_identifier web_search_options functions function_call suffix best_of input encoding_format dimensions'.split(
    ' ',
  ),
);

export function unknownField(body: Readonly<Record<string, unknown>>): string | undefined {
  return Object.keys(body).find((name) => !OPENAI_FIELDS.has(name));
}

export function chatAsk(body: ChatBody): GenerationAsk {
  const choice = body.tool_choice;
  return {
    ...samplingOf(body),
    messages: body.messages.map(chatMessage),
    promptIds: null,
    tools: (body.tools ?? []).map((t) => t.function as Tool),
    toolChoice: choice === null || choice === undefined ? 'auto' : typeof choice === 'string' ? choice : { name: choice.function.name },
    parallelToolCalls: body.parallel_tool_calls ?? true,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    topLogprobs: body.logprobs === true ? (body.top_logprobs ?? 0) : 0,
    thinks: body.chat_template_kwargs?.enable_thinking ?? null,
  };
}

export function samplingOf(
  body: Pick<ChatBody, 'model' | 'n' | 'max_tokens' | 'stop' | 'stop_token_ids' | 'temperature' | 'seed'>,
): Pick<GenerationAsk, 'model' | 'n' | 'maxTokens' | 'stop' | 'stopTokenIds' | 'temperature' | 'seed'> {
  return {
    model: body.model,
    n: body.n ?? 1,
    maxTokens: body.max_tokens ?? null,
    stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
    stopTokenIds: body.stop_token_ids ?? [],
    temperature: body.temperature ?? 1,
    seed: body.seed ?? null,
  };
}

export function chatMessage(from: z.infer<typeof message>): ChatMessage {
  const parts = typeof from.content === 'string' ? [{ type: 'text', text: from.content }] : (from.content ?? []);
  return {
    role: from.role,
    content: parts.map((p) => p.text ?? '').join(''),
    images: parts.filter((p) => p.type === 'image_url').length,
    reasoning: from.reasoning_content ?? from.reasoning ?? '',
    toolCalls: (from.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, arguments: c.function.arguments })),
    toolCallId: from.tool_call_id ?? null,
  };
}

/** What is wrong with a body, as one sentence that names the field. */
export function bodyError(error: z.ZodError): { message: string; param: string } {
  const issue = error.issues[0];
  const param = issue?.path.map(String).join('.') ?? '';
  return { message: `${param === '' ? 'body' : param}: ${issue?.message ?? 'invalid'}`, param };
}
