/** One finished, broken or failed exchange becomes nodes and a call of its trace. */
import type { CallOptions, ErrorInfo, ForkReason, Message, MessageOptions, Tokens } from '../record-types.ts';
import type { Answer, Ask, Choice, Dialect } from './dialect.ts';
import { listKey, messageKey, type MessageKey } from './message-key.ts';
import { idsOf, logprobsOf } from './token-data.ts';
import { walk, type GraphNode, type Request } from './trace-graph.ts';
import type { TraceCalls } from './trace-calls.ts';
import type { Trace } from '../api.ts';

export type Exchange = {
  readonly dialect: Dialect;
  readonly ask: Ask;
  readonly endpoint: string;
  readonly digest: string;
  /** The client says that it repeats an earlier request. */
  readonly isRetry: boolean;
  readonly answer: Answer;
  /** It ended before its end: what had arrived is kept. */
  readonly isPartial: boolean;
  readonly error: ErrorInfo | undefined;
  /** Microseconds. */
  readonly start: number;
  readonly firstToken: number | undefined;
  readonly end: number;
};

export function recordExchange(trace: Trace, calls: TraceCalls, exchange: Exchange): void {
  const { dialect, ask, answer, error } = exchange;
  const call = trace.calls;
  const retryOf = exchange.isRetry ? calls.lastWith(exchange.digest) : undefined;
  const answers = recordNodes(trace, calls, exchange, call, retryOf !== undefined);
  const [first] = answer.choices;
  const options: CallOptions = {
    node: answers[0],
    model: answer.model ?? ask.model,
    endpoint: exchange.endpoint,
    dialect: dialect.name,
    sampling: ask.sampling,
    requestDigest: exchange.digest,
    finishReason: first?.finishReason,
    usage: answer.usage,
    time: { start: exchange.start, end: exchange.end },
    firstToken: exchange.firstToken,
    logprobsMode: answer.choices.some(({ logprobs }) => logprobs !== null) ? 'unknown' : undefined,
    stream: ask.stream,
    retryOf,
    error: error ?? answer.error,
    extra: answer.id === undefined ? undefined : { responseId: answer.id, ...(answers.length > 1 && { nodes: answers }) },
  };
  calls.add({ index: trace.call(options), digest: exchange.digest, start: exchange.start, end: exchange.end, answers, id: answer.id });
}

/** Indices of the answers' nodes. A call without an answer adds no nodes: its inputs come with the one that has. */
function recordNodes(trace: Trace, calls: TraceCalls, exchange: Exchange, call: number, isRetry: boolean): number[] {
  const { ask, answer } = exchange;
  const choices = answer.choices.filter(({ message, ids }) => message !== null || ids !== null);
  if (choices.length === 0) return [];
  const prompt = idsOf(answer.promptIds);
  const known = prompt instanceof Uint32Array ? prompt : null;
  const tools = listKey(ask.tools);
  const request: Request = { keys: ask.messages.map(messageKey), roles: ask.messages.map(({ role }) => role), prompt: known, tools };
  const previous = calls.answerNode(ask.previous);
  const end = walk(calls.graph, request, previous);
  const depth = (end?.depth ?? 0) - (previous?.depth ?? 0);
  let fork = forkReason(calls, exchange, request, end, depth, isRetry);
  let parent = end?.index ?? null;
  const append = (message: Message, options: MessageOptions, isRoot: boolean): number => {
    calls.nextTools = isRoot ? tools : null;
    const index = trace.message(message, { ...options, parent, ...(fork !== undefined && { forkReason: fork }) });
    return index;
  };
  const carried = known === null ? null : known.subarray(end?.pathIds ?? 0);
  const inputs = ask.messages.slice(depth);
  for (const message of inputs) {
    const tokens: Tokens | undefined = known === null ? undefined : { ids: [] };
    parent = append(message, { tokens, ...(tokens && { attribution: 'none' as const }) }, parent === null);
    fork = undefined;
  }
  return choices.map((choice) =>
    append(
      choice.message ?? { role: 'assistant', content: null },
      answerOptions(exchange, choice, carried, call, inputs.length),
      parent === null,
    ),
  );
}

/** The answer carries what the prompt had new: concatenated along its path, ids are exactly prompt and completion. */
function answerOptions(
  { isPartial, answer }: Exchange,
  choice: Choice,
  carried: Uint32Array | null,
  call: number,
  inputs: number,
): MessageOptions {
  const options = { sampled: true, call, ...(isPartial && { partial: true }) };
  const ids = idsOf(choice.ids);
  if (ids === null) return options;
  if (ids === 'token_id_range') return { ...options, tokenError: ids };
  if (carried === null) return { ...options, tokenError: answer.promptIds === null ? 'no_prompt_ids' : 'token_id_range' };
  const logprobs = logprobsOf(choice.logprobs, ids.length);
  if (typeof logprobs === 'string') return { ...options, tokenError: logprobs };
  const all = new Uint32Array(carried.length + ids.length);
  all.set(carried);
  all.set(ids, carried.length);
  const mask = new Uint8Array(all.length).fill(1, carried.length);
  return { ...options, tokens: { ids: all, mask, logprobs }, ...(inputs > 0 && { attribution: 'none' as const }) };
}

/** Why the new chain leaves its siblings, where that can be told. */
function forkReason(
  calls: TraceCalls,
  exchange: Exchange,
  { keys, tools }: Request,
  end: GraphNode | null,
  depth: number,
  isRetry: boolean,
): ForkReason | undefined {
  const siblings = end?.children ?? calls.graph.roots;
  if (siblings.length === 0) return undefined;
  if (depth === keys.length) {
    if (isRetry) return 'retry';
    const others = siblings.filter(({ sampled }) => sampled).map(({ index }) => calls.callOf(index));
    const overlaps = others.some((other) => other !== undefined && other.start < exchange.end && exchange.start < other.end);
    return overlaps ? 'parallel' : 'resample';
  }
  if (end === null && siblings.every((root) => root.tools !== null && root.tools !== tools)) return 'template_changed';
  const next = keys[depth] as MessageKey;
  const twin = siblings.find(({ key }) => key.bare === next.bare);
  if (twin !== undefined) return twin.key.whole === next.whole ? 'retokenised' : 'reasoning_dropped';
  return end === null ? 'unknown' : 'edited_history';
}
