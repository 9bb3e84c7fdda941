/** The public face in types: a recorder, and what it records. They name nothing that lies behind it, so that the published declarations stand alone. */
import type { Counters, Drained, Problem, Rejected, SpoolOptions } from './delivery/reports.ts';
import type {
  Agent,
  CallOptions, EndOptions, Extra, LinkEnd, LinkType, Message, MessageOptions, Note, RewardOptions, RewardSource, RolloutOptions, RunOptions, ToolEnd, ToolOptions,
  TraceEndOptions, TraceOptions,
} from './record-types.ts'; // prettier-ignore

export type RecorderOptions = {
  /** Address of the server, "http://127.0.0.1:7070". */
  readonly url: string;
  /** Sent as `Authorization: Bearer`. */
  readonly key?: string | undefined;
  /** A folder on a local disk, so that nothing is lost when the server is away or this process is killed. Without one, events wait in memory only. */
  readonly spool?: string | SpoolOptions | undefined;
  /** Address of the gateway, where it is another process. Default: `url`. */
  readonly gateway?: string | undefined;
  /** Tenant; the server's default when missing. */
  readonly project?: string | undefined;
  /** Names this program in the numbering of its events; a UUID is added. Default "harness". */
  readonly producer?: string | undefined;
  /** Id of the run that `recorder.rollout` records into. Default: a new one. */
  readonly run?: string | undefined;
  /**
   * When the queue is full (memory, and the spool where there is one): `block` makes asynchronous calls wait for room (`ready`, wrapped clients, the forms with a
   * callback); a synchronous call throws `overloaded` only at the very limit. `refuse`: nothing waits. Default `block`.
   */
  readonly onFull?: 'block' | 'refuse' | undefined;
  /** Events in memory, bytes. Default 32 MiB. */
  readonly memoryBytes?: number | undefined;
  /** A request is sent when this much waits, or after `lingerMs`. Defaults 1 MiB, 2000 events, 20 ms. */
  readonly batchBytes?: number | undefined;
  readonly batchEvents?: number | undefined;
  readonly lingerMs?: number | undefined;
  /** One request may take this long. Default 60,000 ms. */
  readonly requestMs?: number | undefined;
  /** How long `close`, a signal or the end of the program waits for delivery. Default 10,000 ms. */
  readonly closeMs?: number | undefined;
  readonly compression?: 'gzip' | 'none' | undefined;
  /** Events that will not be in the log. They are also kept beside the spool, in `rejected-<session>.jsonl`. */
  readonly onRejected?: ((rejected: readonly Rejected[]) => void) | undefined;
  /** Something is in the way (null: not any more). Nothing is lost by it. */
  readonly onProblem?: ((problem: Problem | null) => void) | undefined;
  /** What a dead process left was delivered. */
  readonly onDrained?: ((drained: Drained) => void) | undefined;
  /** For requests to the server. Default: node:http for events. */
  readonly fetch?: typeof fetch | undefined;
};

export type Recorder = {
  /** As events name it: `producer` in SQL. */
  readonly producer: string;
  readonly counters: Counters;
  /** What is in the way of delivery just now, or null. */
  readonly problem: Problem | null;
  /** What dead processes had left and this one has delivered. */
  readonly drained: readonly Drained[];
  /** A run begins. With `work` it ends with it: completed, or failed when `work` throws; the error is recorded and thrown on. */
  run(options?: RunOptions): Run;
  run<T>(options: RunOptions, work: (run: Run) => Promise<T> | T): Promise<T>;
  /** A rollout in the recorder's own run, which begins with the first of them. */
  rollout(options?: RolloutOptions): Rollout;
  rollout<T>(options: RolloutOptions, work: (rollout: Rollout) => Promise<T> | T): Promise<T>;
  /** Resolves when everything recorded so far has its final answer from the server. Throws `deadline_exceeded` after `timeoutMs` (default 30,000). */
  flush(options?: WaitOptions): Promise<void>;
  /** Resolves when everything recorded so far is on disk, or settled. */
  persist(options?: WaitOptions): Promise<void>;
  /** Resolves when the queue has room. */
  ready(signal?: AbortSignal): Promise<void>;
  /** Ends the recorder's own run, delivers for at most `closeMs`, and leaves the rest in the spool. Throws when events would be lost. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};
export type WaitOptions = { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined };

/** A training or eval run. */
export type Run = {
  readonly id: string;
  /** One attempt at one task begins. With `work` it ends with it; an error is recorded and thrown on. */
  rollout(options?: RolloutOptions): Rollout;
  rollout<T>(options: RolloutOptions, work: (rollout: Rollout) => Promise<T> | T): Promise<T>;
  /** No more rollouts join the group; `size` of them count. */
  sealGroup(group: string, size: number, reason?: 'complete' | 'deadline' | 'cancelled'): void;
  metric(name: string, value: number | null): void;
  error(error: unknown): void;
  note(note: Note): void;
  /** Idempotent: the first end counts. */
  end(options?: RunEndOptions): void;
  /** Ends it as completed, or as failed when an error of the run was recorded. */
  [Symbol.asyncDispose](): Promise<void>;
};
export type RunEndOptions = {
  readonly status?: 'completed' | 'failed' | 'cancelled' | undefined;
  /** Final numbers. */
  readonly metrics?: Extra | undefined;
  readonly extra?: Extra | undefined;
};

/** A client of the package `openai`; of any type where that is not installed.
 * @ts-ignore: the package is optional */
export type OpenAIClient = import('openai').OpenAI;

/** What the gateway fixes for the trace that a key names. */
export type GatewayOptions = {
  readonly agent?: string | Agent | undefined;
  /** Id of the trace. Default: a new one. */
  readonly trace?: string | undefined;
  /** Forced on every call; default: what the program asks for. */
  readonly model?: string | undefined;
  /** Model server to use; default: any that serves the model. */
  readonly upstream?: string | undefined;
  /** Forced on every call: temperature, top_p, max_tokens … */
  readonly sampling?: Extra | undefined;
  readonly limits?:
    | {
        readonly turns?: number | undefined;
        readonly inputTokens?: number | undefined;
        readonly outputTokens?: number | undefined;
        readonly totalTokens?: number | undefined;
        readonly wallSeconds?: number | undefined;
        /** US dollars. */
        readonly cost?: number | undefined;
      }
    | undefined;
  /** Seconds until the key is refused. Default: a day. */
  readonly expiresIn?: number | undefined;
};
/** What a program needs to call models through the gateway. */
export type GatewayKey = {
  readonly trace: string;
  readonly key: string;
  /** ISO 8601. */
  readonly expires: string;
  readonly baseUrls: { readonly openai: string; readonly anthropic: string; readonly root: string };
};

/** One attempt at one task. */
export type Rollout = {
  readonly id: string;
  readonly run: string;
  readonly group: string | undefined;
  /** An agent begins its part. With `work`, the trace is current inside it and ends with it; an error is recorded and thrown on. */
  trace(options?: TraceOptions): Trace;
  trace<T>(options: TraceOptions, work: (trace: Trace) => Promise<T> | T): Promise<T>;
  /** A key for a program that is recorded by the gateway instead of by this one; each is a trace of its own. Throws the gateway's errors. */
  gateway(options?: GatewayOptions): Promise<GatewayKey>;
  /** A client of the package `openai` pointed at the gateway, with a key of its own; `client` are further options of its constructor. */
  openai(options?: GatewayOptions & { readonly client?: Extra | undefined }): Promise<OpenAIClient>;
  link(type: LinkType, from: LinkEnd, to: LinkEnd): void;
  /** Returns the id of the event, with which a later reward can supersede it. */
  reward(name: string, score: number | null, weight?: number, source?: RewardSource, options?: Omit<RewardOptions, 'node'>): string;
  metric(name: string, value: number | null): void;
  error(error: unknown): void;
  note(note: Note): void;
  /** The rollout is given up; it is over then. */
  cancel(reason: 'stale' | 'overload' | 'user' | 'superseded', message?: string): void;
  /** Idempotent: the first end counts. Traces that are still open end with it. Keys of the gateway are refused from then on; `[Symbol.asyncDispose]` waits for that. */
  end(options?: EndOptions): void;
  [Symbol.asyncDispose](): Promise<void>;
};

/** One agent's part of a rollout: messages as a graph, calls, tools, links, rewards. */
export type Trace = {
  readonly id: string;
  readonly rollout: string;
  /** Nodes and calls recorded so far: the next index of each. */
  readonly nodes: number;
  readonly calls: number;
  /** Records one message and returns the index of its node. */
  message(message: Message, options?: MessageOptions): number;
  /** Records one exchange with a model server and returns its index. */
  call(call: CallOptions): number;
  /** A tool call begins. */
  tool(options: ToolOptions): Tool;
  /** A semantic edge from a node of this trace (or from the trace) to another end. */
  link(type: LinkType, to: LinkEnd, node?: number): void;
  /** This trace, or a node of it, as the end of a link. */
  at(node?: number): LinkEnd;
  /** Returns the id of the event, with which a later reward can supersede it. */
  reward(name: string, score: number | null, weight?: number, source?: RewardSource, options?: RewardOptions): string;
  metric(name: string, value: number | null, node?: number): void;
  error(error: unknown, node?: number): void;
  note(note: Note, node?: number): void;
  /** Everything in `work` finds this trace with `currentTrace()`; wrapped clients record into it. */
  run<T>(work: () => T): T;
  /** Resolves when the queue has room: wait here where a harness can wait. */
  ready(signal?: AbortSignal): Promise<void>;
  /** Idempotent: the first end counts. */
  end(options?: TraceEndOptions): void;
  [Symbol.asyncDispose](): Promise<void>;
};

/** A tool call that runs. It is recorded when it ends. */
export type Tool = {
  /** Idempotent: the first end counts. */
  end(end?: ToolEnd): void;
  /** Ends it with the outcome of `work`: an error is recorded and thrown on. */
  run<T>(work: () => Promise<T> | T): Promise<T>;
  [Symbol.dispose](): void;
};
