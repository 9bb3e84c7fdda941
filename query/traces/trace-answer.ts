/** What `GET /v1/traces/{id}` answers. Times are integer microseconds; floats that JSON lacks are `{"$float": "NaN"}`; null was not measured. */
import type { Branch } from './graph.ts';

export type JsonFloat = number | { readonly $float: 'NaN' | 'Infinity' | '-Infinity' };

export type TraceAnswer = {
  readonly project: string;
  readonly run: string;
  readonly rollout: string;
  readonly trace: string;
  /** The log position the answer is true of: asked again with it as `asOf` it stays the same for ever, until the run is deleted. */
  readonly asOf: string;
  /** True while the trace has not ended. */
  readonly open: boolean;
  /** Null while only single nodes of it are stored. */
  readonly summary: TraceSummary | null;
  readonly graph: {
    readonly nodes: number;
    readonly roots: readonly number[];
    /** Nodes whose parent has not arrived. */
    readonly orphans: readonly number[];
    readonly branchCount: number;
    /** The leaf with the highest index; null while there are no nodes. */
    readonly lastLeaf: number | null;
    /** Ascending by leaf. */
    readonly branches: readonly Branch[];
  };
  /** The nodes shown are those with from <= index, at most `limit`; `next` is the `from` of the next window, null at the end. */
  readonly window: { readonly from: number; readonly limit: number; readonly next: number | null };
  readonly nodes: readonly TraceNode[];
  /** Calls of the nodes in the window, and calls without a node. */
  readonly calls: readonly TraceCall[];
  readonly tools: readonly TraceTool[];
  readonly links: readonly TraceLink[];
  /** Of the trace, its nodes and its rollout. */
  readonly rewards: readonly TraceReward[];
  readonly errors: readonly TraceError[];
  /** Which of the lists above hold only their first entries. */
  readonly cut: readonly string[];
};

export type TraceSummary = {
  readonly agent: string | null;
  readonly model: string | null;
  readonly trainable: boolean | null;
  readonly ok: boolean | null;
  readonly stopCondition: string | null;
  readonly truncated: boolean | null;
  readonly reward: JsonFloat | null;
  readonly turns: number;
  readonly calls: number;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly started: number | null;
  readonly ended: number | null;
};

export type TraceNode = {
  readonly index: number;
  readonly parent: number | null;
  readonly role: string;
  readonly sampled: boolean;
  /** Null when the node has no token stream. */
  readonly tokens: number | null;
  readonly sampledTokens: number | null;
  readonly text: string | null;
  readonly reasoning: string | null;
  /** Tool calls the message asks for; arguments are JSON text. */
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly forkReason: string | null;
  readonly call: number | null;
  readonly policyVersion: number | null;
  readonly time: number;
  /** True when texts were cut to the asked number of characters. */
  readonly cut: boolean;
};

export type TraceCall = {
  readonly index: number;
  readonly node: number | null;
  readonly model: string | null;
  readonly finishReason: string | null;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly policyVersion: number | null;
  readonly started: number | null;
  readonly ended: number | null;
  readonly retryOf: number | null;
  readonly errorType: string | null;
  readonly errorMessage: string | null;
};

export type TraceTool = {
  readonly toolCallId: string;
  readonly name: string;
  readonly node: number | null;
  readonly resultNode: number | null;
  readonly started: number | null;
  readonly ended: number | null;
  readonly error: string | null;
};

export type TraceLink = {
  readonly fromTrace: string;
  readonly fromNode: number | null;
  readonly toTrace: string;
  readonly toNode: number | null;
  readonly type: string;
};

export type TraceReward = {
  readonly scope: string;
  readonly node: number | null;
  readonly name: string;
  readonly score: JsonFloat | null;
  readonly weight: JsonFloat | null;
  readonly source: string | null;
};

export type TraceError = {
  readonly scope: string;
  readonly node: number | null;
  readonly type: string;
  readonly message: string;
  readonly statusCode: number | null;
};

/** What `GET /v1/traces/{id}?tokens=<leaf>` answers: the token streams of one branch, concatenated from its root to its leaf. */
export type BranchTokens = {
  readonly project: string;
  readonly run: string;
  readonly rollout: string;
  readonly trace: string;
  /** The log position the answer is true of: asked again with it as `asOf` it stays the same for ever, until the run is deleted. */
  readonly asOf: string;
  readonly leaf: number;
  readonly path: readonly number[];
  readonly tokens: number;
  readonly sampledTokens: number;
  readonly encoding: 'base64' | 'arrays';
  /** Token ids: uint32 little-endian as base64, or numbers. */
  readonly ids: string | readonly number[];
  /** 1 = sampled by the model: uint8 as base64, or numbers. */
  readonly mask: string | readonly number[];
  /** Compact, one per sampled token of the nodes that have them (see segments): float32 little-endian as base64, or numbers. */
  readonly logprobs: string | readonly JsonFloat[];
  /** How many elements each node contributes, in path order. */
  readonly segments: readonly {
    readonly node: number;
    readonly tokens: number;
    readonly sampledTokens: number;
    readonly logprobs: number;
  }[];
};
