/** Folds the streams of engines that answer with bare text or token ids: completions, and the native routes of vLLM and SGLang. */
import { ok, type Result } from '../../../base/result.ts';
import type { SseEvent } from '../sse/sse-event.ts';
import type { Answer, AnswerFold, Delta, FoldStep, Json, JsonObject, StreamError, Usage } from './dialect.ts';
import { UNFINISHED, type Finish } from './finish.ts';
import { dataOf, isDone, NOTHING, streamError } from './fold-event.ts';
import { asksNothing } from './refusals.ts';

/** One choice of one chunk. `text` is what it adds, or with `isWhole` all so far; null = the engine gives no text. */
export type TextPiece = { readonly index: number; readonly text: string | null; readonly isWhole: boolean; readonly finish: Finish };
export type TextChunk = {
  readonly head: Pick<Answer, 'id' | 'model' | 'created'>;
  readonly pieces: readonly TextPiece[];
  readonly usage: Usage | null;
};

type ChoiceState = { text: string | null; finish: Finish };
type State = {
  head: TextChunk['head'] | null;
  readonly choices: Map<number, ChoiceState>;
  usage: Usage | null;
  ended: boolean;
  error: StreamError | null;
};

/** `read` takes one chunk apart; a problem leaves the fold as it was. */
export function createTextFold(n: number, read: (json: JsonObject) => Result<TextChunk>): AnswerFold {
  const state: State = { head: null, choices: new Map(), usage: null, ended: false, error: null };
  const isFinished = (): boolean =>
    state.choices.size >= Math.max(1, n) && [...state.choices.values()].every((choice) => choice.finish.finishReason !== null);
  return {
    add: (event) => add(state, event, read, isFinished),
    answer: () => answerOf(state),
    state: () => ({ finished: isFinished(), ended: state.ended, error: state.error }),
  };
}

function add(state: State, event: SseEvent, read: (json: JsonObject) => Result<TextChunk>, isFinished: () => boolean): Result<FoldStep> {
  if (isDone(event)) {
    state.ended = true;
    return ok({ ...NOTHING, terminal: true });
  }
  const data = dataOf(event);
  if (!data.ok) return data;
  if (data.value === null) return ok(NOTHING);
  const json = data.value;
  if (!asksNothing(json['error'])) {
    state.error = streamError(json['error'] as Json, json);
    return ok({ deltas: [{ type: 'error', error: state.error }], json, terminal: true });
  }
  const chunk = read(json);
  if (!chunk.ok) return chunk;
  const deltas: Delta[] = [];
  if (state.head === null) deltas.push({ type: 'start', ...chunk.value.head });
  state.head ??= chunk.value.head;
  for (const piece of chunk.value.pieces) addPiece(state, piece, deltas);
  if (chunk.value.usage !== null) {
    state.usage = chunk.value.usage;
    deltas.push({ type: 'usage', usage: state.usage });
  }
  return ok({ deltas, json, terminal: isFinished() });
}

function addPiece(state: State, { index, text, isWhole, finish }: TextPiece, deltas: Delta[]): void {
  const choice = state.choices.get(index) ?? { text: null, finish: UNFINISHED };
  state.choices.set(index, choice);
  if (text !== null) {
    const before = choice.text ?? '';
    const added = isWhole && text.startsWith(before) ? text.slice(before.length) : text;
    choice.text = before + added;
    if (added !== '') deltas.push({ type: 'text', choice: index, text: added });
  }
  if (finish.finishReason === null) return;
  if (choice.finish.finishReason === null) deltas.push({ type: 'finish', choice: index, ...finish, finishReason: finish.finishReason });
  choice.finish = finish;
}

function answerOf(state: State): Answer {
  const choices = [...state.choices].toSorted(([a], [b]) => a - b);
  return {
    ...(state.head ?? { id: '', model: '', created: 0 }),
    choices: choices.map(([index, { text, finish }]) => ({ index, message: { role: 'assistant', content: text }, ...finish })),
    usage: state.usage,
  };
}

/** The answer in one body, as the one chunk that it is. */
export function answerOfChunk(chunk: TextChunk): Answer {
  const choices = chunk.pieces.toSorted((a, b) => a.index - b.index);
  return {
    ...chunk.head,
    choices: choices.map(({ index, text, finish }) => ({ index, message: { role: 'assistant', content: text }, ...finish })),
    usage: chunk.usage,
  };
}
