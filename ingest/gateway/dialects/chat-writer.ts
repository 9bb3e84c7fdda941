/** Neutral deltas to chat chunks. Finish reasons wait for the end of the answer: engines of other dialects may add to it until then. */
import { ok, type Result } from '../../../base/result.ts';
import type { Ask, Delta, JsonObject, Naming, OutFrame, StreamWriter, Usage } from './dialect.ts';
import { openaiErrorBody } from './error-bodies.ts';
import { writeJson } from './json.ts';
import { cannotTranslate } from './refusals.ts';
import { writeChatUsage } from './usage.ts';

type State = {
  readonly ask: Ask;
  readonly id: string;
  readonly created: number;
  model: string;
  /** Choices whose role was said. */
  readonly opened: Set<number>;
  readonly finishes: Map<number, string>;
  /** Calls of custom tools, by choice/call. */
  readonly customCalls: Map<string, boolean>;
  usage: Usage | null;
  /** An error was told: nothing follows. */
  broken: boolean;
};

export function createChatWriter(ask: Ask, naming: Naming): StreamWriter {
  const state: State = {
    ask,
    id: naming.newId('chatcmpl-'),
    created: naming.nowSeconds(),
    model: ask.model,
    opened: new Set(),
    finishes: new Map(),
    customCalls: new Map(),
    usage: null,
    broken: false,
  };
  return {
    write: (delta) => (state.broken ? ok([]) : write(state, delta)),
    end: () => (state.broken ? [] : end(state)),
    fail: (status, code, message) => fail(state, status, code, message),
  };
}

function frame(json: JsonObject, terminal: boolean): OutFrame {
  return { name: null, data: writeJson(json), terminal };
}

function fail(state: State, status: number, code: string, message: string): readonly OutFrame[] {
  state.broken = true;
  return [frame(openaiErrorBody(status, code, message), true)];
}

function chunk(state: State, choices: readonly JsonObject[], more: JsonObject = {}): JsonObject {
  const usage = state.ask.wants.usageInStream ? { usage: null } : {};
  return { id: state.id, object: 'chat.completion.chunk', created: state.created, model: state.model, choices, ...usage, ...more };
}

function deltaFrames(state: State, choice: number, delta: JsonObject): readonly OutFrame[] {
  const said = (inner: JsonObject) => frame(chunk(state, [{ index: choice, delta: inner, logprobs: null, finish_reason: null }]), false);
  if (state.opened.has(choice)) return [said(delta)];
  state.opened.add(choice);
  return [said({ role: 'assistant', content: '', refusal: null }), said(delta)];
}

function write(state: State, delta: Delta): Result<readonly OutFrame[]> {
  switch (delta.type) {
    case 'start':
      if (delta.model !== '') state.model = delta.model;
      return ok([]);
    case 'text':
      return ok(deltaFrames(state, delta.choice, { content: delta.text }));
    case 'reasoning':
      return ok(deltaFrames(state, delta.choice, { reasoning_content: delta.text }));
    case 'refusal':
      return ok(deltaFrames(state, delta.choice, { refusal: delta.text }));
    case 'state':
      return ok(deltaFrames(state, delta.choice, { reasoning_details: [delta.state] }));
    case 'tool_call': {
      const { call: index, id, name } = delta;
      const opened = delta.custom
        ? { index, id, type: 'custom', custom: { name, input: '' } }
        : { index, id, type: 'function', function: { name, arguments: '' } };
      state.customCalls.set(`${delta.choice}/${index}`, delta.custom);
      return ok(deltaFrames(state, delta.choice, { tool_calls: [opened] }));
    }
    case 'tool_arguments': {
      const custom = state.customCalls.get(`${delta.choice}/${delta.call}`) === true;
      const body = custom ? { custom: { input: delta.text } } : { function: { arguments: delta.text } };
      return ok(deltaFrames(state, delta.choice, { tool_calls: [{ index: delta.call, ...body }] }));
    }
    case 'opaque':
      return cannotTranslate(delta.what, 'openai.chat', 'it has no such output', 'do not offer the tool that makes it');
    case 'finish':
      state.finishes.set(delta.choice, delta.finishReason);
      return ok([]);
    case 'usage':
      state.usage = delta.usage;
      return ok([]);
    case 'error':
      return ok(fail(state, delta.error.status ?? 502, delta.error.type, delta.error.message));
  }
}

function end(state: State): readonly OutFrame[] {
  const frames: OutFrame[] = [];
  for (const [index, reason] of [...state.finishes].toSorted(([a], [b]) => a - b)) {
    const delta = state.opened.has(index) ? {} : { role: 'assistant', content: '' };
    frames.push(frame(chunk(state, [{ index, delta, logprobs: null, finish_reason: reason }]), true));
  }
  if (state.ask.wants.usageInStream && state.usage !== null) {
    frames.push(frame(chunk(state, [], { usage: writeChatUsage(state.usage) }), true));
  }
  frames.push({ name: null, data: '[DONE]', terminal: true });
  return frames;
}
