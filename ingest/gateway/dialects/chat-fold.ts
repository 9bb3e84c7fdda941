/** Folds a chat stream (`chat.completion.chunk` events) into its answer: choices interleaved, parallel tool calls by index, reasoning in all its names. */
import { fail, ok, type Result } from '../../../base/result.ts';
import type { SseEvent } from '../sse/sse-event.ts';
import { finishOf, headOf } from './chat-answer.ts';
import { reasoningOf } from './chat-message.ts';
import type { Answer, AnswerFold, Delta, FoldStep, Json, JsonObject, Message, StreamError, Usage } from './dialect.ts';
import { UNFINISHED, type Finish } from './finish.ts';
import { dataOf, isDone, NOTHING, streamError } from './fold-event.ts';
import { compact, countOf, fromPairs, isList, isObject, textOf, wordOf } from './json.ts';
import { addDetails } from './reasoning-details.ts';
import { asksNothing } from './refusals.ts';
import { readChatUsage } from './usage.ts';

type Call = { id: string; name: string; arguments: string; custom: boolean; said: boolean };
type ChoiceState = {
  readonly index: number;
  content: string | null;
  reasoning: string;
  refusal: string;
  readonly calls: Call[];
  /** Position in `calls` by the index that the engine gave. */
  readonly byIndex: Map<number, number>;
  readonly details: JsonObject[];
  /** How many of `details` are complete and were told. */
  saidDetails: number;
  readonly extras: Map<string, Json>;
  finish: Finish;
};
type State = {
  readonly asked: number;
  head: ReturnType<typeof headOf> | null;
  readonly choices: Map<number, ChoiceState>;
  usage: Usage | null;
  error: StreamError | null;
  ended: boolean;
};

const READ: ReadonlySet<string> = new Set([
  'role',
  'content',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'refusal',
  'tool_calls',
]);

export function createChatFold(n: number): AnswerFold {
  const state: State = { asked: Math.max(1, n), head: null, choices: new Map(), usage: null, error: null, ended: false };
  return {
    add: (event) => add(state, event),
    answer: () => answerOf(state),
    state: () => ({ finished: isFinished(state), ended: state.ended, error: state.error }),
  };
}

function add(state: State, event: SseEvent): Result<FoldStep> {
  if (isDone(event)) {
    state.ended = true;
    return ok({ deltas: [], json: null, terminal: true });
  }
  const data = dataOf(event);
  if (!data.ok) return data;
  if (data.value === null) return ok(NOTHING);
  const chunk = data.value;
  const choices = chunk['choices'] ?? [];
  if (!isList(choices)) return fail('malformed_stream', 'choices of a chunk must be a list', 'choices');
  const wrong = choices.findIndex((choice) => !isObject(choice) || (!asksNothing(choice['delta']) && !isObject(choice['delta'])));
  if (wrong >= 0) return fail('malformed_stream', `choices[${wrong}] of a chunk has no delta`, `choices[${wrong}].delta`);
  const deltas: Delta[] = [];
  if (state.head === null && (chunk['id'] !== undefined || choices.length > 0)) {
    state.head = headOf(chunk);
    deltas.push({ type: 'start', ...state.head });
  }
  for (const choice of choices) addChoice(state, choice as JsonObject, deltas);
  const usage = readChatUsage(chunk['usage']);
  if (usage !== null) {
    state.usage = usage;
    deltas.push({ type: 'usage', usage });
  }
  if (!asksNothing(chunk['error'])) {
    state.error = streamError(chunk['error'] as Json, chunk);
    deltas.push({ type: 'error', error: state.error });
  }
  return ok({ deltas, json: chunk, terminal: isFinished(state) || state.error !== null });
}

function isFinished(state: State): boolean {
  if (state.choices.size < state.asked) return false;
  for (const choice of state.choices.values()) if (choice.finish.finishReason === null) return false;
  return true;
}

function choiceAt(state: State, index: number): ChoiceState {
  const known = state.choices.get(index);
  if (known !== undefined) return known;
  const made: ChoiceState = {
    index,
    content: null,
    reasoning: '',
    refusal: '',
    calls: [],
    byIndex: new Map(),
    details: [],
    saidDetails: 0,
    extras: new Map(),
    finish: UNFINISHED,
  };
  state.choices.set(index, made);
  return made;
}

function addChoice(state: State, raw: JsonObject, deltas: Delta[]): void {
  const choice = choiceAt(state, countOf(raw['index']) ?? 0);
  const delta = isObject(raw['delta']) ? raw['delta'] : {};
  addTexts(choice, delta, deltas);
  for (const call of isList(delta['tool_calls']) ? delta['tool_calls'] : []) if (isObject(call)) addCall(choice, call, deltas);
  for (const [key, value] of Object.entries(delta)) if (!READ.has(key) && !asksNothing(value)) choice.extras.set(key, value);
  const finish = finishOf(raw);
  if (finish.finishReason !== null) addFinish(choice, finish, deltas);
}

function addTexts(choice: ChoiceState, delta: JsonObject, deltas: Delta[]): void {
  const { index } = choice;
  const reasoning = reasoningOf(delta);
  if (reasoning !== null) addReasoning(choice, reasoning, deltas);
  if (isList(delta['reasoning_details'])) addDetails(choice.details, delta['reasoning_details'], choice.saidDetails);
  if (!asksNothing(delta['content']) || !asksNothing(delta['tool_calls'])) sayDetails(choice, deltas);
  const { content } = delta;
  if (typeof content === 'string') {
    choice.content = (choice.content ?? '') + content;
    if (content !== '') deltas.push({ type: 'text', choice: index, text: content });
  } else if (isList(content)) addParts(choice, content, deltas);
  const refusal = textOf(delta['refusal']);
  if (refusal !== null && refusal !== '') {
    choice.refusal += refusal;
    deltas.push({ type: 'refusal', choice: index, text: refusal });
  }
}

/** Entries are complete once something else is said. */
function sayDetails(choice: ChoiceState, deltas: Delta[]): void {
  for (const state of choice.details.slice(choice.saidDetails)) deltas.push({ type: 'state', choice: choice.index, state });
  choice.saidDetails = choice.details.length;
}

function addReasoning(choice: ChoiceState, text: string, deltas: Delta[]): void {
  choice.reasoning += text;
  deltas.push({ type: 'reasoning', choice: choice.index, text });
}

/** Mistral streams parts: text, and thinking that is a list of text parts. Others are opaque. */
function addParts(choice: ChoiceState, parts: readonly Json[], deltas: Delta[]): void {
  for (const part of parts) {
    if (!isObject(part)) continue;
    if (part['type'] === 'text' && typeof part['text'] === 'string') {
      choice.content = (choice.content ?? '') + part['text'];
      deltas.push({ type: 'text', choice: choice.index, text: part['text'] });
    } else if (part['type'] === 'thinking' && isList(part['thinking'])) {
      const text = part['thinking'].map((inner) => (isObject(inner) ? (textOf(inner['text']) ?? '') : '')).join('');
      if (text !== '') addReasoning(choice, text, deltas);
    } else {
      const others = choice.extras.get('content_parts');
      choice.extras.set('content_parts', [...(isList(others) ? others : []), part]);
      deltas.push({ type: 'opaque', choice: choice.index, what: `content part ${wordOf(part['type'])}`, value: part });
    }
  }
}

/** By index where the engine gives one; else a new id begins a new call and anything else continues the last. */
function addCall(choice: ChoiceState, raw: JsonObject, deltas: Delta[]): void {
  const id = textOf(raw['id']) ?? '';
  const at = callPosition(choice, countOf(raw['index']), id);
  const call = choice.calls[at] as Call;
  const body = isObject(raw['custom']) ? raw['custom'] : isObject(raw['function']) ? raw['function'] : {};
  if (isObject(raw['custom']) || raw['type'] === 'custom') call.custom = true;
  if (id !== '') call.id = id;
  const name = textOf(body['name']);
  if (name !== null && name !== '' && call.name === '') call.name = name;
  const text = textOf(body['arguments']) ?? textOf(body['input']) ?? '';
  call.arguments += text;
  if (!call.said && call.name === '') return; // its arguments wait for its name
  const fresh = call.said ? text : call.arguments;
  if (!call.said) open(choice, at, deltas);
  if (fresh !== '') deltas.push({ type: 'tool_arguments', choice: choice.index, call: at, text: fresh });
}

function open(choice: ChoiceState, at: number, deltas: Delta[]): void {
  const call = choice.calls[at] as Call;
  call.said = true;
  deltas.push({ type: 'tool_call', choice: choice.index, call: at, id: call.id, name: call.name, custom: call.custom });
}

function callPosition(choice: ChoiceState, index: number | null, id: string): number {
  const last = choice.calls.length - 1;
  if (index === null) {
    if (last >= 0 && (id === '' || id === choice.calls[last]?.id)) return last;
  } else {
    const known = choice.byIndex.get(index);
    if (known !== undefined) return known;
    choice.byIndex.set(index, last + 1);
  }
  return choice.calls.push({ id: '', name: '', arguments: '', custom: false, said: false }) - 1;
}

/** Some engines repeat the reason on later chunks: it counts once. */
function addFinish(choice: ChoiceState, finish: Finish, deltas: Delta[]): void {
  const isFirst = choice.finish.finishReason === null;
  choice.finish = finish;
  if (!isFirst) return;
  choice.calls.forEach((call, at) => {
    if (call.said) return;
    open(choice, at, deltas);
    if (call.arguments !== '') deltas.push({ type: 'tool_arguments', choice: choice.index, call: at, text: call.arguments });
  });
  sayDetails(choice, deltas);
  deltas.push({ type: 'finish', choice: choice.index, ...finish, finishReason: finish.finishReason as string });
}

function answerOf(state: State): Answer {
  const choices = [...state.choices.values()].toSorted((a, b) => a.index - b.index);
  return {
    ...(state.head ?? { id: '', model: '', created: 0 }),
    choices: choices.map((choice) => ({ index: choice.index, message: messageOf(choice), ...choice.finish })),
    usage: state.usage,
  };
}

function messageOf(choice: ChoiceState): Message {
  const calls = choice.calls.map((call) =>
    compact({ id: call.id, name: call.name, arguments: call.arguments, type: call.custom ? 'custom' : undefined }),
  );
  return {
    ...fromPairs([...choice.extras]),
    role: 'assistant',
    content: choice.content,
    ...compact({
      reasoning_content: choice.reasoning === '' ? undefined : choice.reasoning,
      refusal: choice.refusal === '' ? undefined : choice.refusal,
      tool_calls: calls.length === 0 ? undefined : calls,
      provider_state: choice.details.length === 0 ? undefined : choice.details,
    }),
  };
}
