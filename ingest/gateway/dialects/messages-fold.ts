/** Folds a Messages stream into its answer: blocks by index, each from its start, its deltas and its stop. */
import { fail, ok, type Result } from '../../../base/result.ts';
import type { SseEvent } from '../sse/sse-event.ts';
import { headOf } from './chat-answer.ts';
import type { Answer, AnswerFold, Delta, FoldStep, Json, JsonObject, StreamError } from './dialect.ts';
import { fromMessages, UNFINISHED, type Finish } from './finish.ts';
import { dataOf, isDone, NOTHING, streamError } from './fold-event.ts';
import { assistantOf, UNSIGNED } from './messages-assistant.ts';
import { countOf, isList, isObject, readJson, textOf, wordOf } from './json.ts';
import { argumentsOf } from './tool-input.ts';
import { readMessagesUsage } from './usage.ts';

type BlockState = {
  json: Record<string, Json>;
  /** Texts that deltas add to, by field: appended as they come, put into `json` when asked for. */
  readonly grown: Map<string, string>;
  /** Input as streamed; null until a delta brought some. */
  input: string | null;
  /** Ordinal among the tool calls. */
  readonly call: number;
  stopped: boolean;
};
type State = {
  head: ReturnType<typeof headOf> | null;
  readonly blocks: Map<number, BlockState>;
  calls: number;
  usage: JsonObject | null;
  finish: Finish;
  error: StreamError | null;
  ended: boolean;
};

export function createMessagesFold(): AnswerFold {
  const state: State = { head: null, blocks: new Map(), calls: 0, usage: null, finish: UNFINISHED, error: null, ended: false };
  return {
    add: (event) => add(state, event),
    answer: () => answerOf(state),
    state: () => ({ finished: state.finish.finishReason !== null, ended: state.ended, error: state.error }),
  };
}

function add(state: State, event: SseEvent): Result<FoldStep> {
  if (isDone(event)) return ok({ ...NOTHING, terminal: true }); // some servers add it
  const data = dataOf(event);
  if (!data.ok) return data;
  if (data.value === null) return ok(NOTHING);
  const deltas: Delta[] = [];
  const problem = addEvent(state, data.value, textOf(data.value['type']) ?? event.name ?? '', deltas);
  if (problem !== null) return problem;
  const terminal = state.ended || state.error !== null || state.finish.finishReason !== null;
  return ok({ deltas, json: data.value, terminal });
}

type Failure = Extract<Result<never>, { ok: false }>;

function addEvent(state: State, json: JsonObject, type: string, deltas: Delta[]): Failure | null {
  switch (type) {
    case 'message_start':
      return start(state, json, deltas);
    case 'content_block_start':
      return startBlock(state, json, deltas);
    case 'content_block_delta':
      return addToBlock(state, json, deltas);
    case 'content_block_stop':
      return stopBlock(state, json, deltas);
    case 'message_delta':
      return addToMessage(state, json, deltas);
    case 'message_stop':
      state.ended = true;
      return null;
    case 'error':
      state.error = streamError(json['error'] ?? json, json);
      deltas.push({ type: 'error', error: state.error });
      return null;
    default:
      return null; // ping, and what may come yet
  }
}

/** One stream is one message: what was told of the first cannot be taken back. */
function start(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const message = json['message'];
  if (!isObject(message)) return fail('malformed_stream', 'message_start has no message', 'message');
  if (state.head !== null) return fail('malformed_stream', 'a second message_start came in one stream', 'type');
  state.head = headOf(message);
  addUsage(state, message['usage']);
  deltas.push({ type: 'start', ...state.head });
  // a message whose content was there at once: its blocks, then its end
  for (const [index, content_block] of (isList(message['content']) ? message['content'] : []).entries()) {
    const problem = startBlock(state, { index, content_block }, deltas) ?? stopBlock(state, { index }, deltas);
    if (problem !== null) return problem;
  }
  return message['stop_reason'] === undefined || message['stop_reason'] === null ? null : addToMessage(state, { delta: message }, deltas);
}

/** Later counts replace earlier ones; a count that is not said again stays. */
function addUsage(state: State, usage: Json | undefined): void {
  if (!isObject(usage)) return;
  const said = Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== null));
  state.usage = { ...state.usage, ...said };
}

function blockAt(state: State, json: JsonObject): { index: number; block: BlockState | undefined } | Failure {
  const index = countOf(json['index']);
  if (index === null) return fail('malformed_stream', 'an event of a block has no index', 'index');
  return { index, block: state.blocks.get(index) };
}

function startBlock(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const at = blockAt(state, json);
  if ('ok' in at) return at;
  const given = json['content_block'];
  if (!isObject(given)) return fail('malformed_stream', 'content_block_start has no block', 'content_block');
  const isCall = given['type'] === 'tool_use';
  const block: BlockState = { json: { ...given }, grown: new Map(), input: null, call: isCall ? state.calls++ : -1, stopped: false };
  state.blocks.set(at.index, block);
  if (isCall) {
    deltas.push({
      type: 'tool_call',
      choice: 0,
      call: block.call,
      id: textOf(given['id']) ?? '',
      name: textOf(given['name']) ?? '',
      custom: false,
    });
  }
  const text = textOf(given['text']) ?? '';
  if (given['type'] === 'text' && text !== '') deltas.push({ type: 'text', choice: 0, text });
  const thinking = textOf(given['thinking']) ?? '';
  if (given['type'] === 'thinking' && thinking !== '') deltas.push({ type: 'reasoning', choice: 0, text: thinking });
  return null;
}

const GROWS: Readonly<Record<string, string>> = { text_delta: 'text', thinking_delta: 'thinking', signature_delta: 'signature' };

function addToBlock(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const at = blockAt(state, json);
  if ('ok' in at) return at;
  const { block } = at;
  const delta = json['delta'];
  if (block === undefined) return fail('malformed_stream', `block ${at.index} was not started`, 'index');
  if (!isObject(delta)) return fail('malformed_stream', 'content_block_delta has no delta', 'delta');
  const type = wordOf(delta['type']);
  const field = GROWS[type];
  if (field !== undefined) {
    const text = textOf(delta[field]) ?? '';
    // a signature comes whole: the last one counts, as in the official clients
    block.grown.set(field, field === 'signature' ? text : (block.grown.get(field) ?? textOf(block.json[field]) ?? '') + text);
    if (type === 'text_delta' && text !== '') deltas.push({ type: 'text', choice: 0, text });
    if (type === 'thinking_delta' && text !== '') deltas.push({ type: 'reasoning', choice: 0, text });
  } else if (type === 'input_json_delta') {
    const text = textOf(delta['partial_json']) ?? '';
    block.input = (block.input ?? '') + text;
    if (block.call >= 0 && text !== '') deltas.push({ type: 'tool_arguments', choice: 0, call: block.call, text });
  } else if (type === 'citations_delta' && delta['citation'] !== undefined) {
    const before = block.json['citations'];
    block.json['citations'] = [...(isList(before as Json) ? (before as readonly Json[]) : []), delta['citation']];
  } else {
    for (const [key, value] of Object.entries(delta)) if (key !== 'type') block.json[key] = value; // compaction_delta and the like
  }
  return null;
}

function stopBlock(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const at = blockAt(state, json);
  if ('ok' in at) return at;
  const { block } = at;
  if (block === undefined) return fail('malformed_stream', `block ${at.index} was not started`, 'index');
  if (block.stopped) return null;
  block.stopped = true;
  const whole = wholeBlock(block);
  const type = wordOf(whole.json['type']);
  switch (type) {
    case 'text':
      break;
    case 'tool_use':
      if (block.input === null || block.input === '') {
        deltas.push({ type: 'tool_arguments', choice: 0, call: block.call, text: argumentsOf(block.json['input']) });
      }
      break;
    case 'thinking':
    case 'redacted_thinking':
      if (whole.json['signature'] !== UNSIGNED) deltas.push({ type: 'state', choice: 0, state: whole.json });
      break;
    default:
      deltas.push({ type: 'opaque', choice: 0, what: `a block of type ${type}`, value: whole.json });
  }
  return null;
}

function addToMessage(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const delta = isObject(json['delta']) ? json['delta'] : {};
  addUsage(state, json['usage']);
  const reason = textOf(delta['stop_reason']);
  if (reason !== null) {
    state.finish = fromMessages(reason, textOf(delta['stop_sequence']));
    deltas.push({ type: 'finish', choice: 0, ...state.finish, finishReason: state.finish.finishReason as string });
  }
  const usage = readMessagesUsage(state.usage ?? undefined);
  if (usage !== null) deltas.push({ type: 'usage', usage });
  return null;
}

/** The block as it stands: with its grown texts, and its input as the object it spells. */
function wholeBlock(block: BlockState): { json: JsonObject; inputText: string | null } {
  const json: Record<string, Json> = { ...block.json, ...Object.fromEntries(block.grown) };
  if (block.input === null || block.input === '') return { json, inputText: null };
  const input = readJson(block.input);
  json['input'] = input.ok ? input.value : block.input; // cut off in the middle: its text
  return { json, inputText: block.input };
}

function answerOf(state: State): Answer {
  const blocks = [...state.blocks].toSorted(([a], [b]) => a - b).map(([, block]) => wholeBlock(block));
  const head = state.head ?? { id: '', model: '', created: 0 };
  if (state.head === null) return { ...head, choices: [], usage: null };
  return {
    ...head,
    choices: [{ index: 0, message: assistantOf(blocks), ...state.finish }],
    usage: readMessagesUsage(state.usage ?? undefined),
  };
}
