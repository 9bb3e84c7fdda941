/** What the recording calls take: plain types, the same as the event schemas say (docs/events.md). Times are integer microseconds. */

export type Json = unknown;
export type Extra = { readonly [key: string]: unknown };

/** Token ids and what belongs to them. Plain arrays are converted exactly, or refused; typed arrays cost least. */
export type Tokens = {
  /** Token ids below 2^31: exactly what the engine saw for this message, a delta along the path. */
  readonly ids: Uint32Array | Int32Array | readonly number[];
  /** One 0 or 1 per id: 1 = sampled by the model. Default: all 1 for a sampled node, else all 0. */
  readonly mask?: Uint8Array | readonly (number | boolean)[] | undefined;
  /** One per sampled id: its log-probability under the policy that sampled it. */
  readonly logprobs?: Float32Array | readonly number[] | undefined;
  /** One 0 or 1 per id: 1 = message body, 0 = chat-template scaffold. */
  readonly isContent?: Uint8Array | readonly (number | boolean)[] | undefined;
  readonly referenceLogprobs?: Float32Array | readonly number[] | undefined;
  readonly advantages?: Float32Array | readonly number[] | undefined;
  /** When weights changed in the middle: lengths sum to the sampled tokens. */
  readonly policyRuns?: readonly { readonly length: number; readonly version: number }[] | undefined;
};

export type Message = { readonly role: string; readonly [key: string]: unknown };

export type ForkReason =
  | 'retry' | 'resample' | 'parallel' | 'compaction' | 'edited_history' | 'reasoning_dropped' | 'template_changed' | 'retokenised' | 'subagent' | 'unknown'; // prettier-ignore

export type MessageOptions = {
  /** Index of the node it follows; null = a new root. Default: the node recorded last. */
  readonly parent?: number | null | undefined;
  /** The model produced it. Default false. */
  readonly sampled?: boolean | undefined;
  readonly tokens?: Tokens | undefined;
  /** Why a sampled node has no tokens. */
  readonly tokenError?: string | undefined;
  readonly policyVersion?: number | undefined;
  /** Index of the call that produced it. */
  readonly call?: number | undefined;
  readonly forkReason?: ForkReason | undefined;
  readonly attribution?: 'renderer' | 'ladder' | 'none' | undefined;
  /** The stream broke: it holds what had arrived. */
  readonly partial?: boolean | undefined;
  readonly extra?: Extra | undefined;
};

export type Usage = {
  readonly promptTokens?: number | null | undefined;
  readonly completionTokens?: number | null | undefined;
  readonly cachedTokens?: number | null | undefined;
  readonly reasoningTokens?: number | null | undefined;
  /** US dollars. */
  readonly cost?: number | null | undefined;
};
export type Span = { readonly start?: number | null | undefined; readonly end?: number | null | undefined };
export type ErrorInfo = {
  readonly type: string;
  readonly message: string;
  readonly statusCode?: number | null | undefined;
  readonly traceback?: string | null | undefined;
};

export type CallOptions = {
  /** The sampled node that holds the answer. */
  readonly node?: number | undefined;
  readonly model?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly dialect?: string | undefined;
  readonly sampling?: Extra | undefined;
  readonly requestDigest?: string | undefined;
  readonly request?: Json;
  readonly response?: Json;
  readonly finishReason?: string | undefined;
  readonly usage?: Usage | undefined;
  readonly time?: Span | undefined;
  readonly firstToken?: number | undefined;
  readonly policyVersion?: number | undefined;
  readonly policyVersionEnd?: number | undefined;
  readonly logprobsMode?: 'raw' | 'processed' | 'unknown' | undefined;
  readonly tokenizerHash?: string | undefined;
  readonly templateHash?: string | undefined;
  readonly templateKwargs?: Extra | undefined;
  readonly stream?: boolean | undefined;
  readonly retryOf?: number | undefined;
  /** Anything thrown, or `{type, message, statusCode?, traceback?}`. */
  readonly error?: unknown;
  readonly extra?: Extra | undefined;
};

export type ToolOptions = {
  readonly name: string;
  /** The id of the tool call in the model's answer. */
  readonly id: string;
  /** The node that holds the tool call. */
  readonly node?: number | undefined;
  readonly extra?: Extra | undefined;
};
export type ToolEnd = {
  /** The node that holds the result. */
  readonly resultNode?: number | undefined;
  readonly error?: unknown;
};

export type LinkType =
  'continuation' | 'compaction_attempt' | 'compaction' | 'subagent_call' | 'subagent_return' | 'agent_message' | 'subagent_cancel';
/** One end of a link: a trace, or a node of it. */
export type LinkEnd = { readonly trace: string; readonly node?: number | undefined };

export type RunOptions = {
  /** Default: a new id. */
  readonly id?: string | undefined;
  readonly kind?: 'train' | 'eval' | undefined;
  readonly name?: string | undefined;
  readonly model?: string | undefined;
  readonly config?: Json;
  readonly envs?: readonly Extra[] | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly extra?: Extra | undefined;
};
export type Env = { readonly id: string; readonly name?: string | undefined; readonly args?: Extra | undefined };
export type Task = {
  readonly type?: string | undefined;
  readonly key?: string | undefined;
  readonly hash?: string | undefined;
  /** The problem instance, verbatim. */
  readonly data?: Json;
};
export type RolloutOptions = {
  /** Default: a new id. */
  readonly id?: string | undefined;
  /** An id, or the whole. */
  readonly env?: string | Env | undefined;
  /** A key, or the whole. */
  readonly task?: string | Task | undefined;
  /** The rollouts that are scored against each other: an id, or with the number planned. */
  readonly group?: string | { readonly id: string; readonly size?: number | undefined } | undefined;
  readonly work?: { readonly type: 'train' | 'eval'; readonly step?: number | undefined } | undefined;
  readonly policyVersion?: number | undefined;
  readonly attempt?: number | undefined;
  readonly parentRollout?: string | undefined;
  readonly forkNode?: { readonly trace: string; readonly index: number } | undefined;
  readonly extra?: Extra | undefined;
};
export type Agent = {
  readonly name?: string | undefined;
  readonly model?: string | undefined;
  /** Whether its sampled tokens may be trained on. */
  readonly trainable?: boolean | undefined;
  readonly config?: Json;
};
export type TraceOptions = {
  /** Default: a new id. */
  readonly id?: string | undefined;
  /** A name, or the whole. */
  readonly agent?: string | Agent | undefined;
  /** Tool schemas offered to the model. */
  readonly tools?: readonly Extra[] | undefined;
  /** Harness, versions, host. */
  readonly runtime?: Json;
  readonly extra?: Extra | undefined;
};
export type EndOptions = {
  /** Default: false when an error was recorded, else true. */
  readonly ok?: boolean | null | undefined;
  readonly stopCondition?: string | undefined;
  /** Named spans. */
  readonly timing?: { readonly [name: string]: unknown } | undefined;
  readonly extra?: Extra | undefined;
};
export type TraceEndOptions = EndOptions & { /** Cut by a length limit. */ readonly truncated?: boolean | undefined };

export type RewardSource =
  | 'code'
  | 'model'
  | 'human'
  | { readonly kind: 'code' | 'model' | 'human'; readonly name?: string | undefined; readonly version?: string | undefined };
export type RewardOptions = {
  /** The reward is of this node, not of the whole. Traces only. */
  readonly node?: number | undefined;
  /** Id of the reward event that this one corrects. */
  readonly supersedes?: string | undefined;
  readonly extra?: Extra | undefined;
};
export type Note = { readonly label?: string | undefined; readonly text?: string | undefined; readonly author?: string | undefined };
