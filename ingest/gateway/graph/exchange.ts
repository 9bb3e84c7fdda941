/**
 * What the graph of a trace takes and gives: one exchange with an engine in, new nodes out. Types only; the functions are
 *   trace-graph.ts    emptyGraph(), applyNodes(graph, plan.nodes), applyEvent(graph, {time, data}), graphBytes(graph)
 *   plan-exchange.ts  planExchange(graph, exchange, prints?): ExchangePlan
 *   message-print.ts  printMessages(messages): made while the engine answers, they save most of the time of a plan
 *   node-events.ts    nodeEvents(plan, facts): the bodies of node.appended
 *   check-identity.ts checkIdentity(graph, leaf, promptIds, completionIds): null or what differs
 * A trace is planned one call at a time: between planExchange and applyNodes no other plan of the same trace is made, because a plan names the next
 * node indices. Token ids are uint32 below 2^31, times are integer microseconds since 1970.
 */
import type { FORK_REASONS } from '../../../events/node.ts';
import type { JsonObject, Message } from '../dialects/dialect.ts';

export type ForkReason = (typeof FORK_REASONS)[number];

/** Which weights sampled a stretch of the completion; the lengths sum to its ids. */
export type PolicyRun = { readonly length: number; readonly version: number };

/** One answer of an exchange (n > 1: several). */
export type Choice = {
  readonly index: number;
  /** Neutral form; null = none came (token-in calls, a stream that broke at once). */
  readonly message: Message | null;
  /** Completion ids with the stop token that was sampled; null = the engine gave none. */
  readonly ids: Uint32Array | null;
  /** One per id, NaN where the engine left one out; null = the engine gave none at all (the ids are kept all the same). */
  readonly logprobs: Float32Array | null;
  readonly policyRuns: readonly PolicyRun[] | null;
  /** The stream broke: this is what had arrived. */
  readonly partial: boolean;
  /** Known to be unusable (name of the fault): the node keeps its message and gets no tokens. */
  readonly tokenError: string | null;
};

/** One finished (or broken) exchange as the graph needs it. */
export type Exchange = {
  /** The tool list of the request; another list is another root. Ignored where `messages` is null. */
  readonly tools: readonly JsonObject[];
  /** The request's messages in neutral form; null = a token-in call. */
  readonly messages: readonly Message[] | null;
  /** The flat prompt that the engine saw; null = it gave none. */
  readonly promptIds: Uint32Array | null;
  /** From the ladder: where message k ends in promptIds (exclusive), null where not known; null = no ladder. */
  readonly spans: readonly (number | null)[] | null;
  /** Empty when nothing was answered: then only the input nodes are planned. */
  readonly choices: readonly Choice[];
  readonly start: number;
  readonly end: number;
  /** A header or key says that this call repeats another one. */
  readonly retry: boolean;
  /** Linked as a compaction of the history. */
  readonly compaction: boolean;
};

/** The tokens of a new node: a delta. `logprobs` are compact, one per 1 in `mask`; null = the engine gave none. */
export type NodeTokens = {
  readonly ids: Uint32Array;
  readonly mask: Uint8Array;
  readonly logprobs: Float32Array | null;
  readonly policyRuns: readonly PolicyRun[] | null;
};

export type NodePlan = {
  readonly index: number;
  readonly parent: number | null;
  readonly role: string;
  readonly message: Message | null;
  readonly sampled: boolean;
  /** `ids` of length 0 = known, none of its own; null = the engine gave none (or tokenError says why they are unusable). */
  readonly tokens: NodeTokens | null;
  /** On sampled nodes without tokens, the reason by name. */
  readonly tokenError: string | null;
  /** On the first new node of a chain that leaves siblings behind. */
  readonly forkReason: ForkReason | null;
  /** ladder = the span is known; none = its ids lie in a later node (input), or it carries the ids of the inputs before it (answer); null = no question. */
  readonly attribution: 'ladder' | 'none' | null;
  readonly partial: boolean;
  /** On roots: hash of the tool list (32 hexadecimal digits); null on all others and on the roots of token-in calls. */
  readonly toolsHash: string | null;
  /** The end of the exchange: the `time` of the node's event. */
  readonly time: number;
};

/** New nodes in append order, the sampled node of each choice, and what was noticed. The graph itself changes only through applyNodes and applyEvent. */
export type ExchangePlan = {
  readonly nodes: readonly NodePlan[];
  readonly answers: readonly { readonly choice: number; readonly node: number }[];
  /**
   * Whether the prompt starts with the prompt and completion of the answer that the request's last assistant message stands for. null = no question:
   * the first call of the trace, a call without ids, a repeated prompt (retry, resample, parallel).
   */
  readonly extends: boolean | null;
  /** Fields in which re-used nodes differ from the re-sent messages, each once: content, reasoning, tool_calls, tool_calls.id, tool_call_id, … */
  readonly drift: readonly string[];
  /** The re-used nodes that differ. */
  readonly driftNodes: readonly number[];
  readonly forkReason: ForkReason | null;
};
