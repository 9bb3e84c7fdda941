/**
 * Neutral deltas to a Responses stream. Every event has its sequence number; every item its id and output index; a part its content index. Reasoning and
 * message are open one at a time; calls stay open until the answer is finished, since parallel ones may interleave.
 */
import { ok, type Result } from '../../../base/result.ts';
import type { Ask, Delta, Json, JsonObject, Naming, OutFrame, StreamWriter, Usage } from './dialect.ts';
import { toResponses } from './finish.ts';
import { textOf, writeJson } from './json.ts';
import { cannotTranslate } from './refusals.ts';
import { callItem } from './responses-assistant.ts';
import { messageItem, reasoningItem, responseObject, textPart, type ResponseFacts } from './responses-answer.ts';

const TO = 'openai.responses';
type Part = { readonly kind: 'output_text' | 'refusal' | 'reasoning_text'; text: string };
type Open = {
  readonly type: 'message' | 'reasoning';
  readonly id: string;
  readonly index: number;
  readonly done: JsonObject[];
  part: Part | null;
};
type Call = {
  readonly id: string;
  readonly index: number;
  readonly callId: string;
  readonly name: string;
  readonly custom: boolean;
  text: string;
};
type State = {
  readonly ask: Ask;
  readonly naming: Naming;
  readonly id: string;
  readonly created: number;
  model: string;
  sequence: number;
  started: boolean;
  /** Finished items by output index. */
  readonly output: JsonObject[];
  items: number;
  open: Open | null;
  readonly calls: Map<number, Call>;
  /** Provider state of another dialect that no item carries yet. */
  readonly foreign: JsonObject[];
  status: NonNullable<ReturnType<typeof toResponses>> | null;
  usage: Usage | null;
  /** An error was told: nothing follows. */
  broken: boolean;
};

export function createResponsesWriter(ask: Ask, naming: Naming): StreamWriter {
  const state: State = {
    ask,
    naming,
    id: naming.newId('resp_'),
    created: naming.nowSeconds(),
    model: ask.model,
    sequence: 0,
    started: false,
    output: [],
    items: 0,
    open: null,
    calls: new Map(),
    foreign: [],
    status: null,
    usage: null,
    broken: false,
  };
  return {
    write: (delta) => (state.broken ? ok([]) : write(state, delta)),
    end: () => (state.broken ? [] : end(state)),
    fail: (_status, code, message) => fail(state, code, message),
  };
}

function push(state: State, frames: OutFrame[], type: string, fields: JsonObject): void {
  frames.push({ name: type, data: writeJson({ type, sequence_number: state.sequence++, ...fields }), terminal: false });
}

function response(state: State, facts: Partial<ResponseFacts>): JsonObject {
  const { ask, id, created, model } = state;
  return responseObject({ id, created, model, ask, status: 'in_progress', incomplete: null, output: [], usage: null, ...facts });
}

function begin(state: State, frames: OutFrame[]): void {
  if (state.started) return;
  state.started = true;
  push(state, frames, 'response.created', { response: response(state, {}) });
  push(state, frames, 'response.in_progress', { response: response(state, {}) });
}

function write(state: State, delta: Delta): Result<readonly OutFrame[]> {
  const frames: OutFrame[] = [];
  if ('choice' in delta && delta.choice !== 0) return cannotTranslate('a second choice', TO, 'it has exactly one', 'ask with n = 1');
  switch (delta.type) {
    case 'start':
      if (delta.model !== '') state.model = delta.model;
      begin(state, frames);
      break;
    case 'text':
      addText(state, 'output_text', delta.text, frames);
      break;
    case 'refusal':
      addText(state, 'refusal', delta.text, frames);
      break;
    case 'reasoning':
      addText(state, 'reasoning_text', delta.text, frames);
      break;
    case 'state':
      state.foreign.push(delta.state);
      break;
    case 'tool_call':
      openCall(state, delta, frames);
      break;
    case 'tool_arguments':
      addArguments(state, delta.call, delta.text, frames);
      break;
    case 'opaque':
      return cannotTranslate(delta.what, TO, 'only the provider that made it can read it', 'do not offer the tool that makes it');
    case 'finish': {
      const status = toResponses(delta);
      if (status === null)
        return cannotTranslate(`finish reason ${delta.finishReason}`, TO, 'it has no such status', 'see the recorded call');
      state.status = status;
      closeAll(state, frames);
      break;
    }
    case 'usage':
      state.usage = delta.usage;
      break;
    case 'error':
      return ok(fail(state, delta.error.type, delta.error.message));
  }
  return ok(frames);
}

/** The names of the events of each kind of text; a reasoning text's are its own. */
const EVENTS: Readonly<Record<Part['kind'], string>> = {
  output_text: 'response.output_text',
  refusal: 'response.refusal',
  reasoning_text: 'response.reasoning_text',
};

function partJson({ kind, text }: Part): JsonObject {
  if (kind === 'output_text') return textPart(text);
  return kind === 'refusal' ? { type: 'refusal', refusal: text } : { type: 'reasoning_text', text };
}

function addText(state: State, kind: Part['kind'], text: string, frames: OutFrame[]): void {
  const open = ensureItem(state, kind === 'reasoning_text' ? 'reasoning' : 'message', frames);
  if (open.part?.kind !== kind) {
    closePart(state, open, frames);
    open.part = { kind, text: '' };
    push(state, frames, 'response.content_part.added', { ...spot(open), part: partJson(open.part) });
  }
  (open.part as Part).text += text;
  const logprobs = kind === 'output_text' ? { logprobs: [] } : {};
  push(state, frames, `${EVENTS[kind]}.delta`, { ...spot(open), delta: text, ...logprobs });
}

function spot(open: Open): JsonObject {
  return { item_id: open.id, output_index: open.index, content_index: open.done.length };
}

function ensureItem(state: State, type: Open['type'], frames: OutFrame[]): Open {
  if (state.open?.type === type) return state.open;
  closeItem(state, frames);
  begin(state, frames);
  const id = state.naming.newId(type === 'message' ? 'msg_' : 'rs_');
  const open: Open = { type, id, index: state.items++, done: [], part: null };
  const item = type === 'message' ? messageItem(id, [], 'in_progress') : { id, type: 'reasoning', summary: [], content: [] };
  push(state, frames, 'response.output_item.added', { output_index: open.index, item });
  state.open = open;
  return open;
}

function closePart(state: State, open: Open, frames: OutFrame[]): void {
  const { part } = open;
  if (part === null) return;
  const at = spot(open);
  const said: Record<string, Json> = part.kind === 'refusal' ? { refusal: part.text } : { text: part.text };
  push(state, frames, `${EVENTS[part.kind]}.done`, { ...at, ...said, ...(part.kind === 'output_text' && { logprobs: [] }) });
  push(state, frames, 'response.content_part.done', { ...at, part: partJson(part) });
  open.done.push(partJson(part));
  open.part = null;
}

function closeItem(state: State, frames: OutFrame[]): void {
  const { open } = state;
  if (open === null) return;
  closePart(state, open, frames);
  state.open = null;
  const text = open.done.map((part) => textOf(part['text']) ?? '').join('');
  const item =
    open.type === 'message'
      ? messageItem(open.id, open.done, state.status?.status ?? 'completed')
      : reasoningItem(open.id, text, state.foreign.splice(0), state.ask);
  finishItem(state, open.index, item, frames);
}

function finishItem(state: State, index: number, item: JsonObject, frames: OutFrame[]): void {
  state.output[index] = item;
  push(state, frames, 'response.output_item.done', { output_index: index, item });
}

function openCall(state: State, delta: Extract<Delta, { type: 'tool_call' }>, frames: OutFrame[]): void {
  closeItem(state, frames);
  begin(state, frames);
  const id = state.naming.newId(delta.custom ? 'ctc_' : 'fc_');
  const call: Call = { id, index: state.items++, callId: delta.id, name: delta.name, custom: delta.custom, text: '' };
  state.calls.set(delta.call, call);
  push(state, frames, 'response.output_item.added', { output_index: call.index, item: callJson(call, 'in_progress') });
}

function callJson(call: Call, status: string): JsonObject {
  const neutral = { id: call.callId, name: call.name, arguments: call.text, ...(call.custom && { type: 'custom' }) };
  return { ...callItem(neutral), id: call.id, status };
}

function addArguments(state: State, at: number, text: string, frames: OutFrame[]): void {
  const call = state.calls.get(at);
  if (call === undefined || text === '') return;
  call.text += text;
  const type = call.custom ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta';
  push(state, frames, type, { item_id: call.id, output_index: call.index, delta: text });
}

function closeCall(state: State, call: Call, frames: OutFrame[]): void {
  const at = { item_id: call.id, output_index: call.index };
  if (call.custom) push(state, frames, 'response.custom_tool_call_input.done', { ...at, input: call.text });
  else push(state, frames, 'response.function_call_arguments.done', { ...at, name: call.name, arguments: call.text });
  finishItem(state, call.index, callJson(call, 'completed'), frames);
}

function closeAll(state: State, frames: OutFrame[]): void {
  begin(state, frames);
  if (state.items === 0) ensureItem(state, 'message', frames); // an answer that says nothing is an empty message
  closeItem(state, frames);
  if (state.foreign.length > 0) {
    ensureItem(state, 'reasoning', frames);
    closeItem(state, frames);
  }
  for (const call of [...state.calls.values()].toSorted((a, b) => a.index - b.index)) closeCall(state, call, frames);
  state.calls.clear();
}

function end(state: State): readonly OutFrame[] {
  const frames: OutFrame[] = [];
  closeAll(state, frames);
  const { status, incomplete } = state.status ?? { status: 'incomplete', incomplete: null };
  const facts = { status, incomplete, output: state.output, usage: state.usage };
  push(state, frames, `response.${status}`, { response: response(state, facts) });
  return frames.map((frame) => ({ ...frame, terminal: true }));
}

/** The failed response has what was said until then. */
function fail(state: State, code: string, message: string): readonly OutFrame[] {
  const frames: OutFrame[] = [];
  begin(state, frames);
  state.broken = true;
  const failed = {
    ...response(state, { status: 'failed', output: state.output.filter(Boolean), usage: state.usage }),
    error: { code, message },
  };
  push(state, frames, 'response.failed', { response: failed });
  return frames.map((frame) => ({ ...frame, terminal: true }));
}
