/** Anthropic's `POST /v1/messages` and `/v1/messages/count_tokens`: no token ids, no log-probabilities. */
import { z } from 'zod';
import { sendJson, sendStream, type Call, type Frame } from './answer.ts';
import { bodyError } from './ask-schema.ts';
import { blockEvents, blocksOf, type Block } from './blocks.ts';
import type { ChatMessage } from './chat-template.ts';
import { hex, type Completion } from './completion.ts';
import { anthropicError, anthropicStreamError } from './errors.ts';
import { findModel, generate, renderAsk, shownOf, type GenerationAsk } from './generation.ts';

const block = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  thinking: z.string().optional(),
  id: z.string().optional(),
  name: z.string().optional(),
  input: z.unknown().optional(),
  tool_use_id: z.string().optional(),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]).optional(),
});
type ContentBlock = z.infer<typeof block>;
const asked = {
  model: z.string(),
  messages: z
    .array(z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content: z.union([z.string(), z.array(block)]) }))
    .min(1),
  system: z.union([z.string(), z.array(z.looseObject({ type: z.literal('text'), text: z.string() }))]).optional(),
  tools: z.array(z.looseObject({ name: z.string(), description: z.string().optional(), input_schema: z.unknown().optional() })).optional(),
  tool_choice: z
    .looseObject({
      type: z.enum(['auto', 'any', 'tool', 'none']),
      name: z.string().optional(),
      disable_parallel_tool_use: z.boolean().optional(),
    })
    .optional(),
  thinking: z.looseObject({ type: z.enum(['enabled', 'disabled', 'adaptive']) }).optional(),
};
const messagesSchema = z.looseObject({
  ...asked,
  max_tokens: z.int().min(1),
  stream: z.boolean().optional(),
  stop_sequences: z.array(z.string()).optional(),
  temperature: z.number().min(0).max(1).optional(),
});
const countSchema = z.looseObject(asked);
type Asked = z.infer<typeof countSchema>;
type Body = z.infer<typeof messagesSchema>;

export async function messagesRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  if (call.engine.kind === 'anthropic' && call.request.headers['anthropic-version'] === undefined) {
    return anthropicError(call, { status: 400, message: 'anthropic-version: header is required' });
  }
  const parsed = messagesSchema.safeParse(raw);
  if (!parsed.success) return anthropicError(call, { status: 400, ...bodyError(parsed.error) });
  const body = parsed.data;
  call.seen.stream = body.stream === true;
  const generation = generate(call, askOf(body));
  if ('status' in generation) return anthropicError(call, generation);
  const { usage } = shownOf(call, generation);
  const completion = generation.completions[0] as Completion;
  const id = `msg_${hex(call.engine.seed)}${hex(call.seen.n)}`;
  const headers = { 'request-id': `req_${hex(call.seen.n)}` };
  const answer: Answer = { id, model: body.model, completion, inputTokens: usage.promptTokens, outputTokens: usage.completionTokens };
  if (body.stream === true) return sendStream(call, messageFrames(answer), anthropicStreamError, headers);
  return sendJson(call, 200, messageBody(answer), headers);
}

export function countTokensRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const parsed = countSchema.safeParse(raw);
  if (!parsed.success) return anthropicError(call, { status: 400, ...bodyError(parsed.error) });
  const ask = askOf({ ...parsed.data, max_tokens: 1 });
  const model = findModel(call.engine, ask.model);
  if ('status' in model) return anthropicError(call, model);
  return sendJson(call, 200, { input_tokens: renderAsk(call.engine, model, ask, []).length });
}

type Answer = {
  readonly id: string;
  readonly model: string;
  readonly completion: Completion;
  readonly inputTokens: number;
  readonly outputTokens: number;
};

function messageBody(answer: Answer): unknown {
  const { completion } = answer;
  return {
    ...messageHead(answer),
    content: blocksOf(completion).map(({ block: each, text }) => contentBlock(each, text)),
    ...stopOf(completion),
    usage: { ...inputUsage(answer), output_tokens: answer.outputTokens },
  };
}

function* messageFrames(answer: Answer): Generator<Frame> {
  const { completion } = answer;
  const start = {
    ...messageHead(answer),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...inputUsage(answer), output_tokens: 1 },
  };
  yield frame({ type: 'message_start', message: start });
  yield frame({ type: 'ping' });
  for (const { kind, index, block: each, text, tokens } of blockEvents(completion)) {
    if (kind === 'open') yield { ...frame({ type: 'content_block_start', index, content_block: contentBlock(each, '', true) }), tokens };
    else if (kind === 'delta') yield { ...frame({ type: 'content_block_delta', index, delta: deltaOf(each, text) }), tokens };
    else {
      if (each.type === 'reasoning')
        yield frame({ type: 'content_block_delta', index, delta: { type: 'signature_delta', signature: signatureOf(text) } });
      yield { ...frame({ type: 'content_block_stop', index }), tokens };
    }
  }
  yield { ...frame({ type: 'message_delta', delta: stopOf(completion), usage: { output_tokens: answer.outputTokens } }), last: true };
  yield { ...frame({ type: 'message_stop' }), last: true };
}

function messageHead({ id, model }: Answer): Readonly<Record<string, unknown>> {
  return { id, type: 'message', role: 'assistant', model };
}

function inputUsage({ inputTokens }: Answer): Readonly<Record<string, unknown>> {
  return { input_tokens: inputTokens, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
}

function frame(event: { readonly type: string; readonly [field: string]: unknown }): Frame {
  return { text: `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`, tokens: 0 };
}

function contentBlock(of: Block, text: string, starting = false): unknown {
  if (of.type === 'content') return { type: 'text', text };
  if (of.type === 'reasoning') return { type: 'thinking', thinking: text, signature: starting ? '' : signatureOf(text) };
  return { type: 'tool_use', id: of.id.replace('call_', 'toolu_'), name: of.name, input: starting ? {} : parseInput(text) };
}

function deltaOf(of: Block, text: string): unknown {
  if (of.type === 'content') return { type: 'text_delta', text };
  return of.type === 'reasoning' ? { type: 'thinking_delta', thinking: text } : { type: 'input_json_delta', partial_json: text };
}

/** Opaque to clients, which must send it back unchanged. */
function signatureOf(text: string): string {
  return Buffer.from(`signed:${text.length}`).toString('base64');
}

function parseInput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { raw: text };
  }
}

function stopOf(completion: Completion): { readonly stop_reason: string; readonly stop_sequence: string | null } {
  if (typeof completion.stopReason === 'string') return { stop_reason: 'stop_sequence', stop_sequence: completion.stopReason };
  return { stop_reason: { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' }[completion.finishReason], stop_sequence: null };
}

function askOf(body: Asked & Partial<Body>): GenerationAsk {
  const system = typeof body.system === 'string' ? body.system : (body.system ?? []).map((b) => b.text).join('\n\n');
  const choice = body.tool_choice;
  return {
    model: body.model,
    messages: [
      ...(system === '' ? [] : [chat('system', { content: system })]),
      ...body.messages.flatMap((m) =>
        chatMessages(m.role, typeof m.content === 'string' ? [{ type: 'text', text: m.content }] : m.content),
      ),
    ],
    promptIds: null,
    tools: (body.tools ?? []).map((t) => ({ name: t.name, description: t.description, parameters: t.input_schema })),
    toolChoice:
      choice === undefined || choice.type === 'auto'
        ? 'auto'
        : choice.type === 'any'
          ? 'required'
          : choice.type === 'none'
            ? 'none'
            : { name: choice.name ?? '' },
    parallelToolCalls: choice?.disable_parallel_tool_use !== true,
    n: 1,
    maxTokens: body.max_tokens ?? null,
    stop: body.stop_sequences ?? [],
    stopTokenIds: [],
    temperature: body.temperature ?? 1,
    seed: null,
    topLogprobs: 0,
    thinks: body.thinking === undefined ? null : body.thinking.type !== 'disabled',
  };
}

/** Tool results become messages of their own, before the text beside them. */
function chatMessages(role: string, blocks: readonly ContentBlock[]): ChatMessage[] {
  const results = blocks
    .filter((b) => b.type === 'tool_result')
    .map((b) => chat('tool', { content: resultText(b.content), toolCallId: b.tool_use_id ?? null }));
  const text = blocks
    .filter((b) => b.type === 'text')
    .map((b) => b.text ?? '')
    .join('');
  const own = chat(role, {
    content: text,
    images: blocks.filter((b) => b.type === 'image').length,
    reasoning: blocks
      .filter((b) => b.type === 'thinking')
      .map((b) => b.thinking ?? '')
      .join(''),
    toolCalls: blocks
      .filter((b) => b.type === 'tool_use')
      .map((b) => ({ id: b.id ?? '', name: b.name ?? '', arguments: JSON.stringify(b.input ?? {}) })),
  });
  return results.length > 0 && text === '' && own.images === 0 ? results : [...results, own];
}

function resultText(content: ContentBlock['content']): string {
  return typeof content === 'string' ? content : (content ?? []).map((c) => c.text ?? '').join('');
}

function chat(role: string, fields: Partial<ChatMessage>): ChatMessage {
  return { role, content: '', images: 0, reasoning: '', toolCalls: [], toolCallId: null, ...fields };
}
