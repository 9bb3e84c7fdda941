/** Folds a Responses stream into its answer: items by output index, texts by content index; the finished response has the last word. */
import { fail, ok, type Result } from '../../../base/result.ts';
import type { SseEvent } from '../sse/sse-event.ts';
import type { Answer, AnswerFold, Delta, FoldStep, Json, JsonObject, StreamError } from './dialect.ts';
import { UNFINISHED, type Finish } from './finish.ts';
import { dataOf, isDone, NOTHING, streamError } from './fold-event.ts';
import { countOf, isList, isObject, textOf } from './json.ts';
import { assistantOf, typeOf } from './responses-assistant.ts';
import { finishFrom, responseHead } from './responses-answer.ts';
import { currentItem, grow, placesOf, saidAt, type ItemState, type Place } from './responses-items.ts';
import { openState } from './sealed-state.ts';
import { readResponsesUsage } from './usage.ts';

type State = {
  /** The response as last told. */
  response: JsonObject | null;
  readonly items: Map<number, ItemState>;
  calls: number;
  /** The reasoning text that was told last, so that the next one begins on a line of its own. */
  reasoningAt: string | null;
  finish: Finish;
  ended: boolean;
  error: StreamError | null;
};

type Failure = Extract<Result<never>, { ok: false }>;

export function createResponsesFold(): AnswerFold {
  const state: State = { response: null, items: new Map(), calls: 0, reasoningAt: null, finish: UNFINISHED, ended: false, error: null };
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
  return ok({ deltas, json: data.value, terminal: state.ended || state.error !== null });
}

/** Texts of a part, by the event that brings a piece of one: where it lies, and the type of its part. */
const PIECES: Readonly<Record<string, readonly [list: Place['list'], kind: string]>> = {
  'response.output_text.delta': ['content', 'output_text'],
  'response.refusal.delta': ['content', 'refusal'],
  'response.reasoning_text.delta': ['content', 'reasoning_text'],
  'response.reasoning_summary_text.delta': ['summary', 'summary_text'],
  'response.function_call_arguments.delta': ['arguments', 'arguments'],
  'response.custom_tool_call_input.delta': ['input', 'input'],
};

function addEvent(state: State, json: JsonObject, type: string, deltas: Delta[]): Failure | null {
  const piece = PIECES[type];
  if (piece !== undefined) return addPiece(state, json, piece, deltas);
  switch (type) {
    case 'response.created':
    case 'response.queued':
    case 'response.in_progress':
      return addResponse(state, json, deltas);
    case 'response.output_item.added':
    case 'response.output_item.done':
      return addItem(state, json, type === 'response.output_item.done', deltas);
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
    case 'response.cancelled':
      return finish(state, json, deltas);
    case 'error':
      return addError(state, json['error'] ?? json, json, deltas);
    default:
      return null; // parts are made by their texts; progress of provider-run tools is in their items
  }
}

function addResponse(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const { response } = json;
  if (!isObject(response)) return fail('malformed_stream', 'an event has no response', 'response');
  if (state.ended) return fail('malformed_stream', 'a second response came in one stream', 'response');
  if (state.response === null) deltas.push({ type: 'start', ...responseHead(response) });
  state.response = response;
  return null;
}

function addError(state: State, error: Json, body: JsonObject, deltas: Delta[]): null {
  state.error = streamError(error, body);
  deltas.push({ type: 'error', error: state.error });
  return null;
}

function addItem(state: State, json: JsonObject, isDoneEvent: boolean, deltas: Delta[]): Failure | null {
  const index = countOf(json['output_index']);
  const { item: given } = json;
  if (index === null) return fail('malformed_stream', 'an event of an item has no output_index', 'output_index');
  if (!isObject(given)) return fail('malformed_stream', 'an event of an item has no item', 'item');
  const item = state.items.get(index) ?? openItem(state, index, given, deltas);
  if (!isDoneEvent || item.done) return null;
  for (const { place, kind, text } of placesOf(given)) {
    const said = saidAt(item, place);
    if (text.startsWith(said)) tell(state, { index, item, place, kind }, text.slice(said.length), deltas);
  }
  item.json = given;
  item.done = true;
  sayDone(item.json, deltas);
  return null;
}

function openItem(state: State, index: number, given: JsonObject, deltas: Delta[]): ItemState {
  const type = typeOf(given);
  const isCall = type === 'function_call' || type === 'custom_tool_call';
  const item: ItemState = { json: given, done: false, call: isCall ? state.calls++ : -1, texts: new Map() };
  state.items.set(index, item);
  if (isCall) {
    const [id, name] = [textOf(given['call_id']) ?? '', textOf(given['name']) ?? ''];
    deltas.push({ type: 'tool_call', choice: 0, call: item.call, id, name, custom: type === 'custom_tool_call' });
  }
  for (const { place, kind, text } of placesOf(given)) tell(state, { index, item, place, kind }, text, deltas);
  return item;
}

const TOLD: ReadonlySet<string> = new Set(['message', 'function_call', 'custom_tool_call']);

function sayDone(json: JsonObject, deltas: Delta[]): void {
  const type = typeOf(json);
  if (TOLD.has(type)) return;
  if (type !== 'reasoning') {
    deltas.push({ type: 'opaque', choice: 0, what: `an item of type ${type}`, value: json });
    return;
  }
  const sealed = openState(json['encrypted_content']);
  const state = sealed === null ? (assistantOf([json])['provider_state'] ?? []) : sealed.state;
  for (const entry of isList(state) ? state : []) if (isObject(entry)) deltas.push({ type: 'state', choice: 0, state: entry });
}

function addPiece(state: State, json: JsonObject, [list, kind]: readonly [Place['list'], string], deltas: Delta[]): Failure | null {
  const index = countOf(json['output_index']);
  const item = index === null ? undefined : state.items.get(index);
  if (index === null || item === undefined) return fail('malformed_stream', 'a delta belongs to no item', 'output_index');
  const at = list === 'content' ? countOf(json['content_index']) : list === 'summary' ? countOf(json['summary_index']) : 0;
  const text = textOf(json['delta']);
  if (text === null) return fail('malformed_stream', 'a delta has no text', 'delta');
  tell(state, { index, item, place: { list, index: at ?? 0 }, kind }, text, deltas);
  return null;
}

type Spot = { readonly index: number; readonly item: ItemState; readonly place: Place; readonly kind: string };

/** Notes a piece of text and tells it, in the words of the neutral form. */
function tell(state: State, { index, item, place, kind }: Spot, text: string, deltas: Delta[]): void {
  grow(item, place, kind, text);
  if (text === '') return;
  switch (kind) {
    case 'output_text':
      deltas.push({ type: 'text', choice: 0, text });
      break;
    case 'refusal':
      deltas.push({ type: 'refusal', choice: 0, text });
      break;
    case 'arguments':
    case 'input':
      if (item.call >= 0) deltas.push({ type: 'tool_arguments', choice: 0, call: item.call, text });
      break;
    case 'reasoning_text':
    case 'summary_text': {
      const at = `${index}/${place.list}/${place.index}`;
      const separator = state.reasoningAt !== null && state.reasoningAt !== at ? '\n' : '';
      state.reasoningAt = at;
      deltas.push({ type: 'reasoning', choice: 0, text: separator + text });
      break;
    }
    default:
  }
}

/** Items that were told only here count too. */
function finish(state: State, json: JsonObject, deltas: Delta[]): Failure | null {
  const isFirst = state.response === null;
  const problem = addResponse(state, json, deltas);
  if (problem !== null) return problem;
  const response = state.response as JsonObject;
  const output = isList(response['output']) ? response['output'].filter(isObject) : [];
  if (isFirst || state.items.size === 0) output.forEach((item, at) => addItem(state, { output_index: at, item }, true, deltas));
  state.ended = true;
  state.finish = finishFrom(response, itemsOf(state));
  if (!isObject(response['error'])) {
    const { finishReason } = state.finish;
    if (finishReason !== null) deltas.push({ type: 'finish', choice: 0, ...state.finish, finishReason });
  } else addError(state, response['error'], json, deltas);
  const usage = readResponsesUsage(response['usage']);
  if (usage !== null) deltas.push({ type: 'usage', usage });
  return null;
}

/** The output of the finished response, where it has one; else what was gathered. */
function itemsOf(state: State): readonly JsonObject[] {
  const output = state.response?.['output'];
  if (state.ended && isList(output) && output.length > 0) return output.filter(isObject);
  return [...state.items].toSorted(([a], [b]) => a - b).map(([, item]) => currentItem(item));
}

function answerOf(state: State): Answer {
  const response = state.response ?? {};
  const head = responseHead(response);
  if (state.response === null && state.items.size === 0) return { ...head, choices: [], usage: null };
  const choice = { index: 0, message: assistantOf(itemsOf(state)), ...state.finish };
  return { ...head, choices: [choice], usage: readResponsesUsage(response['usage']) };
}
