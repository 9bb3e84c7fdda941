/**
 * A call that the record holds no request of, rebuilt from the trace graph: the request from the messages before its answer, the tools and the sampling; the answer from the
 * node that holds it. As OpenAI's chat API says them: the graph does not tell how another API's requests were put together. Pure.
 */
import { toJson } from '../../../events/codec/cbor-to-json.ts';
import { isMap } from '../../../events/fields.ts';
import type { EventOf, TapedeckEvent } from '../../../events/registry.ts';
import { canonicalRequest, type Fields } from '../request/canonical-request.ts';
import type { RecordedAnswer, RecordedCall } from './recorded-call.ts';

type NodeData = EventOf<'node.appended'>['data'];
type CallData = EventOf<'call.recorded'>['data'];
type Node = { readonly time: number; readonly data: NodeData };
export type TraceGraph = { readonly trace: string; readonly nodes: ReadonlyMap<number, Node>; readonly tools: readonly unknown[] };

export const REBUILT_DIALECT = 'openai.chat';
/** Messages that the rebuilt requests of one trace may hold together: each repeats those before it. */
const MAX_MESSAGES = 2_000_000;

/** Collects the graph of one trace from its events; the first of an index wins. */
export class GraphDraft {
  readonly #nodes = new Map<number, Node>();
  #tools: readonly unknown[] | null = null;

  add(event: TapedeckEvent): void {
    if (event.type === 'trace.started') this.#tools ??= event.data.tools ?? null;
    if (event.type === 'node.appended' && !this.#nodes.has(event.data.index)) this.#nodes.set(event.data.index, event);
  }

  graph(trace: string): TraceGraph {
    return { trace, nodes: this.#nodes, tools: this.#tools ?? [] };
  }
}

/** The calls of a trace with those rebuilt that hold no request. A trace without any recorded call has one for each sampled node. */
export function withRebuilt(calls: readonly RecordedCall[], graph: TraceGraph, dataOf: (index: number) => CallData | null): RecordedCall[] {
  const rebuild = rebuilder(graph);
  if (calls.length > 0) return calls.map((call) => (call.request === null ? rebuild(call, dataOf(call.index)) : call));
  const sampled = [...graph.nodes.values()].filter(({ data }) => data.sampled).toSorted((a, b) => a.data.index - b.data.index);
  return sampled.map((node, index) => rebuild(impliedCall(graph.trace, index, node), null));
}

/** An answer whose call was not recorded on its own, as in files that hold conversations only. */
function impliedCall(trace: string, index: number, { time, data }: Node): RecordedCall {
  const nothing = { request: null, answer: null, streamed: null, missing: null, dialect: null, retryOf: null, limit: null, model: null };
  return { trace, index, ...nothing, start: time, isGood: true, node: data.index, matchedBy: 'request' };
}

function rebuilder(graph: TraceGraph): (call: RecordedCall, data: CallData | null) => RecordedCall {
  let held = 0;
  return (call, data) => {
    const refuse = (why: string): RecordedCall => ({ ...call, missing: `its request is not recorded, and cannot be rebuilt: ${why}` });
    if (call.dialect !== null && call.dialect !== REBUILT_DIALECT) return refuse(`it was one of ${call.dialect}; only those of ${REBUILT_DIALECT} are`);
    const answer = call.node === null ? undefined : graph.nodes.get(call.node)?.data;
    if (answer === undefined) return refuse('no node holds its answer');
    if (!call.isGood || answer.partial === true) return refuse('its answer failed or broke off, and how is not recorded');
    if (!isMap(answer.message)) return refuse(`node ${answer.index}, its answer, has no message`);
    const path = pathTo(graph, answer.parent ?? null);
    if (typeof path === 'number') return refuse(`node ${path} before its answer has no message`);
    if (path.length === 0) return refuse('there is no message before its answer');
    held += path.length;
    if (held > MAX_MESSAGES) return refuse(`those before it hold ${MAX_MESSAGES} messages already`);
    const tools = graph.tools.length === 0 ? {} : { tools: graph.tools.map(definition) };
    const request = canonicalRequest({ ...data?.sampling, ...tools, messages: path.map(asSent) });
    const said = { call, message: answer.message, finishReason: data?.finishReason ?? null, usage: data?.usage ?? null };
    return { ...call, dialect: REBUILT_DIALECT, request, matchedBy: 'messages', missing: null, answer: call.answer ?? bodyOf(said), streamed: call.answer === null ? streamOf(said) : null };
  };
} // prettier-ignore

/** The messages from the root down to the node, or the index of one that has none. */
function pathTo({ nodes }: TraceGraph, from: number | null): readonly Fields[] | number {
  const path: Fields[] = [];
  for (let at = from; at !== null;) {
    const data: NodeData | undefined = nodes.get(at)?.data;
    if (data === undefined || !isMap(data.message)) return at;
    path.push(isMap(data.message) ? { role: data.role, ...data.message } : {});
    const parent: number | null = data.parent ?? null;
    at = parent !== null && parent < at ? parent : null;
  }
  return path.toReversed();
}

/** A message as a client sends it: tool calls in OpenAI's form. */
function asSent(message: Fields): Fields {
  const calls = message['tool_calls'];
  return Array.isArray(calls) ? { ...message, tool_calls: calls.map(wireCall) } : message;
}

function wireCall(call: unknown): unknown {
  if (!isMap(call) || isMap(call['function']) || typeof call['name'] !== 'string') return call;
  const { id, name, arguments: given } = call;
  return { id, type: 'function', function: { name, arguments: typeof given === 'string' ? given : toJson(given ?? {}) } };
}

function definition(tool: unknown): unknown {
  return isMap(tool) && !isMap(tool['function']) && typeof tool['name'] === 'string' ? { type: 'function', function: tool } : tool;
}

type Said = {
  readonly call: RecordedCall;
  readonly message: Fields;
  readonly finishReason: string | null;
  readonly usage: CallData['usage'];
};

function frameOf({ call }: Said, object: string): Fields {
  return { id: `chatcmpl-${call.trace}-${call.index}`, object, created: Math.floor(call.start / 1e6), model: call.model ?? 'recorded' };
}

function messageOf({ message }: Said): Fields {
  const { content, reasoning_content: reasoning, tool_calls: calls, refusal } = asSent(message);
  return {
    role: 'assistant',
    content: textOf(content),
    ...(typeof reasoning === 'string' && { reasoning_content: reasoning }),
    ...(typeof refusal === 'string' && { refusal }),
    ...(Array.isArray(calls) && calls.length > 0 && { tool_calls: calls as unknown[] }),
  };
}

/** Answers are text there; parts that are none have no place. */
function textOf(content: unknown): string | null {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  return content.map((part: unknown) => (isMap(part) && typeof part['text'] === 'string' ? part['text'] : typeof part === 'string' ? part : '')).join(''); // prettier-ignore
}

function finishOf({ finishReason, message }: Said): string {
  const calls = message['tool_calls'];
  return finishReason ?? (Array.isArray(calls) && calls.length > 0 ? 'tool_calls' : 'stop');
}

/** Cached tokens are among those of the prompt there, and not here. Null where one of the two counts is not known. */
function usageOf({ usage }: Said): Fields | null {
  const [prompt, completion] = [usage?.promptTokens ?? null, usage?.completionTokens ?? null];
  if (prompt === null || completion === null) return null;
  const cached = usage?.cachedTokens ?? null;
  const asked = prompt + (cached ?? 0);
  return {
    prompt_tokens: asked, completion_tokens: completion, total_tokens: asked + completion,
    ...(cached !== null && { prompt_tokens_details: { cached_tokens: cached } }),
  };
} // prettier-ignore

function bodyOf(said: Said): RecordedAnswer {
  const usage = usageOf(said);
  const choice = { index: 0, message: messageOf(said), finish_reason: finishOf(said), logprobs: null };
  const body = { ...frameOf(said, 'chat.completion'), choices: [choice], ...(usage !== null && { usage }) };
  return answer('application/json; charset=utf-8', toJson(body));
}

/** The same as a stream of few chunks: the record does not say how it came. */
function streamOf(said: Said): RecordedAnswer {
  const { tool_calls: calls, ...message } = messageOf(said);
  const frame = frameOf(said, 'chat.completion.chunk');
  const usage = usageOf(said);
  const delta = { ...message, ...(Array.isArray(calls) && { tool_calls: calls.map((call: unknown, index) => ({ index, ...(call as Fields) })) }) };
  const chunks = [
    { ...frame, choices: [{ index: 0, delta, finish_reason: null }] },
    { ...frame, choices: [{ index: 0, delta: {}, finish_reason: finishOf(said) }] },
    ...(usage === null ? [] : [{ ...frame, choices: [], usage }]),
  ];
  return answer('text/event-stream; charset=utf-8', [...chunks.map((chunk) => toJson(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join(''));
} // prettier-ignore

function answer(type: string, body: string): RecordedAnswer {
  const pieces = [{ atMicros: 0, bytes: Buffer.from(body) }];
  return { status: 200, headers: { 'content-type': type }, pieces, ending: 'complete', isExact: false };
}
