/** `POST /v1/responses`: input items or the answer before (`previous_response_id`) plus what is new; no token ids. */
import { z } from 'zod';
import { sendJson, sendStream, type Call, type Frame } from './answer.ts';
import { bodyError } from './ask-schema.ts';
import { blockEvents, blocksOf, type Block } from './blocks.ts';
import type { ChatMessage } from './chat-template.ts';
import { hex, type Completion } from './completion.ts';
import { openaiError } from './errors.ts';
import { generate, shownOf } from './generation.ts';

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const item = z.looseObject({
  type: z.string().optional(),
  role: z.enum(['user', 'assistant', 'system', 'developer']).optional(),
  content: z.union([z.string(), z.array(part)]).nullish(),
  summary: z.array(part).optional(),
  call_id: z.string().optional(),
  name: z.string().optional(),
  arguments: z.string().optional(),
  output: z.union([z.string(), z.array(part)]).optional(),
});
type Item = z.infer<typeof item>;
const responsesSchema = z.looseObject({
  model: z.string(),
  input: z.union([z.string(), z.array(item).min(1)]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  store: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  tools: z
    .array(
      z.looseObject({
        type: z.string(),
        name: z.string().optional(),
        description: z.string().nullish(),
        parameters: z.unknown().optional(),
      }),
    )
    .nullish(),
  tool_choice: z.union([z.enum(['auto', 'none', 'required']), z.looseObject({ type: z.string(), name: z.string().optional() })]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().nullish(),
  reasoning: z.looseObject({ effort: z.string().nullish() }).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
});
type Body = z.infer<typeof responsesSchema>;

export async function responsesRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const parsed = responsesSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const body = parsed.data;
  call.seen.stream = body.stream === true;
  const before = body.previous_response_id == null ? [] : call.engine.conversations.get(body.previous_response_id);
  if (before === undefined) {
    return openaiError(call, {
      status: 404,
      message: `Previous response with id '${body.previous_response_id}' not found.`,
      param: 'previous_response_id',
    });
  }
  const input = typeof body.input === 'string' ? [{ role: 'user' as const, content: body.input }] : body.input;
  const messages = [...before, ...messagesOf(input)];
  const choice = body.tool_choice;
  const generation = generate(call, {
    model: body.model,
    messages: body.instructions == null ? messages : [chat('system', { content: body.instructions }), ...messages],
    promptIds: null,
    tools: (body.tools ?? []).flatMap((t) =>
      t.type === 'function' && t.name !== undefined
        ? [{ name: t.name, description: t.description ?? undefined, parameters: t.parameters }]
        : [],
    ),
    toolChoice: choice == null ? 'auto' : typeof choice === 'string' ? choice : { name: choice.name ?? '' },
    parallelToolCalls: body.parallel_tool_calls ?? true,
    n: 1,
    maxTokens: body.max_output_tokens ?? null,
    stop: [],
    stopTokenIds: [],
    temperature: body.temperature ?? 1,
    seed: null,
    topLogprobs: 0,
    thinks: body.reasoning?.effort == null ? null : body.reasoning.effort !== 'none',
  });
  if ('status' in generation) return openaiError(call, generation);
  const completion = generation.completions[0] as Completion;
  const id = `resp_${hex(call.engine.seed)}${hex(call.seen.n)}`;
  if (body.store !== false) {
    call.engine.conversations.set(id, [...messages, chat('assistant', completion.message)]);
  }
  const response = { id, body, completion, created: Math.floor(call.seen.time / 1e6), usage: shownOf(call, generation).usage };
  if (body.stream === true) return sendStream(call, responseFrames(response), responsesStreamError);
  return sendJson(call, 200, responseBody(response));
}

type Response = {
  readonly id: string;
  readonly body: Body;
  readonly completion: Completion;
  readonly created: number;
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number };
};

function responseBody(response: Response): Readonly<Record<string, unknown>> {
  const { completion, usage } = response;
  const cut = completion.finishReason === 'length';
  const output = blocksOf(completion).map(({ block, text }, i) => outputItem(response.id, i, block, text, 'completed'));
  return {
    ...responseHead(response, cut ? 'incomplete' : 'completed'),
    incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
    output,
    usage: {
      input_tokens: usage.promptTokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: usage.completionTokens,
      output_tokens_details: { reasoning_tokens: completion.pieces.filter((p) => p.reasoning !== undefined).length },
      total_tokens: usage.promptTokens + usage.completionTokens,
    },
  };
}

function* responseFrames(response: Response): Generator<Frame> {
  let sequence = 0;
  const frame = (type: string, fields: Readonly<Record<string, unknown>>, tokens = 0, last = false): Frame => ({
    text: `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...fields })}\n\n`,
    tokens,
    last,
  });
  const started = { ...responseHead(response, 'in_progress'), incomplete_details: null, output: [], usage: null };
  yield frame('response.created', { response: started });
  yield frame('response.in_progress', { response: started });
  for (const { kind, index, block, text, tokens } of blockEvents(response.completion)) {
    const itemId = itemIdOf(response.id, index, block);
    const place = { item_id: itemId, output_index: index };
    const names = { content: 'response.output_text', reasoning: 'response.reasoning_text', call: 'response.function_call_arguments' }[
      block.type
    ];
    const at = block.type === 'call' ? place : { ...place, content_index: 0 };
    const extra = block.type === 'content' ? { logprobs: [] } : {};
    if (kind === 'open') {
      yield frame(
        'response.output_item.added',
        { output_index: index, item: outputItem(response.id, index, block, '', 'in_progress') },
        tokens,
      );
      if (block.type !== 'call') yield frame('response.content_part.added', { ...at, part: partOf(block, '') });
    } else if (kind === 'delta') yield frame(`${names}.delta`, { ...at, delta: text, ...extra }, tokens);
    else {
      const full = block.type === 'call' ? { arguments: text, name: block.name } : { text };
      yield frame(`${names}.done`, { ...at, ...full, ...extra }, tokens);
      if (block.type !== 'call') yield frame('response.content_part.done', { ...at, part: partOf(block, text) });
      yield frame('response.output_item.done', { output_index: index, item: outputItem(response.id, index, block, text, 'completed') });
    }
  }
  const final = responseBody(response);
  yield frame(final['status'] === 'incomplete' ? 'response.incomplete' : 'response.completed', { response: final }, 0, true);
}

function responsesStreamError(message: string): readonly Frame[] {
  return [
    {
      text: `event: error\ndata: ${JSON.stringify({ type: 'error', code: 'server_error', message, param: null, sequence_number: 9999 })}\n\n`,
      tokens: 0,
    },
  ];
}

function responseHead({ id, body, created }: Response, status: string): Readonly<Record<string, unknown>> {
  return {
    id,
    object: 'response',
    created_at: created,
    status,
    background: false,
    error: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    model: body.model,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
    store: body.store ?? true,
    temperature: body.temperature ?? 1,
    text: { format: { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_p: body.top_p ?? 1,
    truncation: 'disabled',
    metadata: body.metadata ?? {},
  };
}

function itemIdOf(id: string, index: number, block: Block): string {
  return `${{ content: 'msg', reasoning: 'rs', call: 'fc' }[block.type]}_${id.slice(5)}_${index}`;
}

function outputItem(id: string, index: number, block: Block, text: string, status: string): unknown {
  const itemId = itemIdOf(id, index, block);
  if (block.type === 'call') return { id: itemId, type: 'function_call', status, call_id: block.id, name: block.name, arguments: text };
  if (block.type === 'reasoning')
    return { id: itemId, type: 'reasoning', summary: [], content: text === '' ? [] : [partOf(block, text)], status };
  return { id: itemId, type: 'message', status, role: 'assistant', content: status === 'in_progress' ? [] : [partOf(block, text)] };
}

function partOf(block: Block, text: string): unknown {
  return block.type === 'reasoning' ? { type: 'reasoning_text', text } : { type: 'output_text', annotations: [], logprobs: [], text };
}

/** Reasoning, text and calls in a row are one answer. */
function messagesOf(items: readonly Item[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  const intoAnswer = (fields: (answer: ChatMessage) => Partial<ChatMessage>): void => {
    const last = messages.at(-1);
    const answer = last?.role === 'assistant' ? (messages.pop() as ChatMessage) : chat('assistant', {});
    messages.push({ ...answer, ...fields(answer) });
  };
  for (const each of items) {
    if (each.type === 'function_call') {
      const call = { id: each.call_id ?? '', name: each.name ?? '', arguments: each.arguments ?? '' };
      intoAnswer((answer) => ({ toolCalls: [...answer.toolCalls, call] }));
    } else if (each.type === 'function_call_output') {
      messages.push(chat('tool', { content: textOf(each.output), toolCallId: each.call_id ?? null }));
    } else if (each.type === 'reasoning') {
      messages.push(chat('assistant', { reasoning: textOf(each.content ?? each.summary) }));
    } else if (each.role === 'assistant') intoAnswer((answer) => ({ content: answer.content + textOf(each.content) }));
    else if (each.role !== undefined) messages.push(chat(each.role, { content: textOf(each.content), images: imagesOf(each.content) }));
  }
  return messages;
}

function textOf(content: Item['content']): string {
  return typeof content === 'string' ? content : (content ?? []).map((p) => p.text ?? '').join('');
}

function imagesOf(content: Item['content']): number {
  return Array.isArray(content) ? content.filter((p) => p.type === 'input_image').length : 0;
}

function chat(role: string, fields: Partial<ChatMessage>): ChatMessage {
  return { role, content: '', images: 0, reasoning: '', toolCalls: [], toolCallId: null, ...fields };
}
