/**
 * Neutral deltas to a Messages stream: message_start, then one block after the other (start, deltas, stop), message_delta, message_stop. Blocks never
 * interleave, so tool calls are written whole when the answer is finished: only then is it known whether their arguments spell an object.
 */
import { ok, type Result } from '../../../base/result.ts';
import type { Ask, Delta, Json, JsonObject, Naming, OutFrame, StreamWriter, Usage } from './dialect.ts';
import { anthropicErrorBody } from './error-bodies.ts';
import { toMessages } from './finish.ts';
import { NO_USAGE } from './messages-answer.ts';
import { ownThought, UNSIGNED } from './messages-assistant.ts';
import { writeJson } from './json.ts';
import { cannotTranslate } from './refusals.ts';
import { sealState } from './sealed-state.ts';
import { inputText } from './tool-input.ts';
import { writeMessagesUsage } from './usage.ts';

const TO = 'anthropic.messages';
type Open = { readonly type: 'text' | 'thinking'; readonly index: number };
type State = {
  readonly id: string;
  model: string;
  started: boolean;
  blocks: number;
  open: Open | null;
  readonly calls: Map<number, { id: string; name: string; text: string }>;
  /** Provider state of another dialect that no block carries yet. */
  readonly foreign: JsonObject[];
  stop: { reason: string; sequence: string | null } | null;
  usage: Usage | null;
  /** An error was told: nothing follows. */
  broken: boolean;
};

export function createMessagesWriter(ask: Ask, naming: Naming): StreamWriter {
  const state: State = {
    id: naming.newId('msg_'),
    model: ask.model,
    started: false,
    blocks: 0,
    open: null,
    calls: new Map(),
    foreign: [],
    stop: null,
    usage: null,
    broken: false,
  };
  return {
    write: (delta) => (state.broken ? ok([]) : write(state, delta)),
    end: () => (state.broken ? [] : end(state)),
    fail: (status, code, message) => fail(state, status, code, message),
  };
}

function frame(json: JsonObject & { readonly type: string }, terminal = false): OutFrame {
  return { name: json.type, data: writeJson(json), terminal };
}

function fail(state: State, status: number, code: string, message: string): readonly OutFrame[] {
  state.broken = true;
  return [{ name: 'error', data: writeJson(anthropicErrorBody(status, code, message)), terminal: true }];
}

function begin(state: State, frames: OutFrame[]): void {
  if (state.started) return;
  state.started = true;
  const message = {
    id: state.id,
    type: 'message',
    role: 'assistant',
    model: state.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: writeMessagesUsage(state.usage ?? NO_USAGE),
  };
  frames.push(frame({ type: 'message_start', message }));
}

function startBlock(state: State, content: JsonObject, frames: OutFrame[]): number {
  begin(state, frames);
  const index = state.blocks++;
  frames.push(frame({ type: 'content_block_start', index, content_block: content }));
  return index;
}

function addDelta(index: number, delta: JsonObject, frames: OutFrame[]): void {
  frames.push(frame({ type: 'content_block_delta', index, delta }));
}

/** Closes the open block; thinking gets its signature first, since clients expect one. */
function close(state: State, frames: OutFrame[], signature?: Json): void {
  if (state.open === null) return;
  const { type, index } = state.open;
  if (type === 'thinking') addDelta(index, { type: 'signature_delta', signature: signature ?? signatureOf(state) }, frames);
  frames.push(frame({ type: 'content_block_stop', index }));
  state.open = null;
}

function signatureOf(state: State): string {
  if (state.foreign.length === 0) return UNSIGNED;
  return sealState({ text: null, state: state.foreign.splice(0) });
}

function ensureOpen(state: State, type: Open['type'], frames: OutFrame[]): number {
  if (state.open?.type === type) return state.open.index;
  close(state, frames);
  const empty = type === 'text' ? { type, text: '' } : { type, thinking: '', signature: '' };
  const index = startBlock(state, empty, frames);
  state.open = { type, index };
  return index;
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
    case 'refusal':
      addDelta(ensureOpen(state, 'text', frames), { type: 'text_delta', text: delta.text }, frames);
      break;
    case 'reasoning':
      addDelta(ensureOpen(state, 'thinking', frames), { type: 'thinking_delta', thinking: delta.text }, frames);
      break;
    case 'state':
      return ok(writeState(state, delta.state));
    case 'tool_call':
      if (delta.custom) return cannotTranslate('a call of a custom tool', TO, 'it has no tools that take free text', 'use function tools');
      state.calls.set(delta.call, { id: delta.id, name: delta.name, text: '' });
      break;
    case 'tool_arguments': {
      const call = state.calls.get(delta.call);
      if (call !== undefined) call.text += delta.text;
      break;
    }
    case 'opaque':
      return cannotTranslate(delta.what, TO, 'only the provider that made it can read it', 'do not offer the tool that makes it');
    case 'finish':
      return finish(state, delta);
    case 'usage':
      state.usage = delta.usage;
      break;
    case 'error':
      return ok(fail(state, delta.error.status ?? 502, delta.error.type, delta.error.message));
  }
  return ok(frames);
}

/** Signed thinking of a provider of this dialect passes; another's state travels sealed, as the signature of the thinking it belongs to. */
function writeState(state: State, entry: JsonObject): readonly OutFrame[] {
  const frames: OutFrame[] = [];
  if (entry['type'] === 'redacted_thinking') {
    close(state, frames);
    frames.push(frame({ type: 'content_block_stop', index: startBlock(state, entry, frames) }));
    return frames;
  }
  const own = ownThought(entry);
  if (own?.['type'] !== 'thinking') {
    state.foreign.push(entry);
    return frames;
  }
  if (state.open?.type !== 'thinking') {
    const index = ensureOpen(state, 'thinking', frames);
    const text = own['thinking'];
    if (typeof text === 'string' && text !== '') addDelta(index, { type: 'thinking_delta', thinking: text }, frames);
  }
  close(state, frames, own['signature']);
  return frames;
}

function finish(state: State, delta: Extract<Delta, { type: 'finish' }>): Result<readonly OutFrame[]> {
  const stop = toMessages(delta, state.calls.size > 0);
  if (stop === null)
    return cannotTranslate(`finish reason ${delta.finishReason}`, TO, 'it has no such stop reason', 'see the recorded call');
  state.stop = stop;
  const frames: OutFrame[] = [];
  writeRest(state, frames);
  return ok(frames);
}

/** Closes what is open and writes the calls, once. */
function writeRest(state: State, frames: OutFrame[]): void {
  begin(state, frames);
  close(state, frames);
  if (state.foreign.length > 0) {
    ensureOpen(state, 'thinking', frames);
    close(state, frames);
  }
  for (const [, { id, name, text }] of [...state.calls].toSorted(([a], [b]) => a - b)) {
    const index = startBlock(state, { type: 'tool_use', id, name, input: {} }, frames);
    addDelta(index, { type: 'input_json_delta', partial_json: '' }, frames);
    if (text.trim() !== '') addDelta(index, { type: 'input_json_delta', partial_json: inputText(text) }, frames);
    frames.push(frame({ type: 'content_block_stop', index }));
  }
  state.calls.clear();
}

function end(state: State): readonly OutFrame[] {
  const frames: OutFrame[] = [];
  writeRest(state, frames);
  const { reason, sequence } = state.stop ?? { reason: null, sequence: null };
  const usage = writeMessagesUsage(state.usage ?? NO_USAGE);
  frames.push(frame({ type: 'message_delta', delta: { stop_reason: reason, stop_sequence: sequence }, usage }, true));
  frames.push(frame({ type: 'message_stop' }, true));
  return frames.map((each) => ({ ...each, terminal: true }));
}
