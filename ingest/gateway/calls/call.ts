/** One call under way: what is known of it when it begins. */
import type { Message } from '../dialects/dialect.ts';
import type { TraceState } from '../traces/state.ts';
import type { Upstream } from '../upstreams/pool.ts';
import type { Inbound } from './inbound.ts';
import type { Ladder } from './ladder.ts';
import type { Outbound } from './outbound.ts';
import type { Attempt } from './outcome.ts';
import type { Printing } from './printing.ts';

export type Call = {
  readonly trace: TraceState;
  readonly index: number;
  readonly inbound: Inbound;
  /** The whole conversation, where the request only names what came before. */
  readonly messages: readonly Message[];
  readonly instructions: number;
  /** Microseconds. */
  readonly start: number;
  readonly isRetry: boolean;
  readonly retryOf: number | null;
  /** The newest published version when it began. */
  readonly published: number | null;
  /** What the harness calls itself: its User-Agent. */
  readonly client: string | null;
  /** Of its messages, begun when the call began; null where it has none. */
  readonly printing: Printing | null;
};

/** What the call was sent as; null while no upstream has taken it. */
export type Sent = {
  readonly upstream: Upstream;
  readonly outbound: Outbound;
  readonly model: string;
  readonly attempts: readonly Attempt[];
  /** Set when the request is on its way. */
  ladder: Ladder | null;
};
