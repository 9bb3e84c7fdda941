/** The queue of a recorder against a real edge, with a hurried clock and a transport that fails as a script says. */
import type { Clock } from '../../base/clock.ts';
import { seededRandom } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { backgroundClock } from '../../harness-sdk/background-clock.ts';
import { openDelivery, type Delivery } from '../../harness-sdk/delivery/delivery.ts';
import { limitsOf, spoolLimitsOf, type Limits } from '../../harness-sdk/delivery/limits.ts';
import { httpPost } from '../../harness-sdk/delivery/post.ts';
import { encodeNumbered, producerId, scopeHead } from '../../harness-sdk/encode-event.ts';
import type { Problem, Rejected, SpoolOptions } from '../../harness-sdk/delivery/reports.ts';

/** Waits are a hundredth of what is asked for: back-off is seconds in real life. */
export const hurriedClock: Clock = { ...backgroundClock, sleep: (ms, signal) => backgroundClock.sleep(ms / 100, signal) };

export type QueueUnderTest = {
  readonly delivery: Delivery;
  readonly session: string;
  readonly rejected: Rejected[];
  readonly problems: (Problem | null)[];
  /** Records one metric whose name tells it from all others. `bad` ones are refused by the server. */
  record(name: string, options?: { readonly bad?: boolean; readonly rollout?: string; readonly fill?: number }): void;
};

export type QueueOptions = {
  readonly url: string;
  readonly seed: number;
  readonly fetch?: typeof fetch;
  readonly limits?: Partial<Limits>;
  readonly spool?: SpoolOptions;
  readonly mayWait?: boolean;
  readonly clock?: Clock;
  readonly isOwner?: () => boolean;
  readonly session?: string;
};

export function openQueueUnderTest(options: QueueOptions): QueueUnderTest {
  const { url, seed, clock = hurriedClock } = options;
  const random = seededRandom(seed);
  const newId = (): string => uuidV7(clock, random);
  const session = options.session ?? newId();
  const rejected: Rejected[] = [];
  const problems: (Problem | null)[] = [];
  const limits = limitsOf({ lingerMs: 20, batchEvents: 16, closeMs: 60_000, ...options.limits });
  const delivery = openDelivery({
    session,
    producer: producerId('test', session),
    post: httpPost({ url, key: undefined, gzip: seed % 2 === 0, requestMs: limits.requestMs, clock, fetch: options.fetch }),
    clock,
    random,
    limits,
    spool: options.spool === undefined ? null : spoolLimitsOf(options.spool),
    mayWait: options.mayWait ?? true,
    newId,
    onRejected: (list) => void rejected.push(...list),
    onProblem: (problem) => void problems.push(problem),
    isOwner: options.isOwner ?? (() => true),
  });
  return {
    delivery,
    session,
    rejected,
    problems,
    record: (name, { bad = false, rollout, fill = 0 } = {}) => {
      const scope = scopeHead({ run: 'run-1', rollout });
      const value = bad ? ('not a number' as unknown as number) : name.length;
      const data = { scope: 'run' as const, name, value, extra: { fill: 'x'.repeat(fill) } };
      delivery.record((seq) =>
        encodeNumbered({ producer: delivery.producer, seq, id: newId(), type: 'metric.recorded', time: clock.nowMicros(), scope, data }),
      );
    },
  };
}

/** The name of the metric in an event's bytes. */
export function nameOf(event: Uint8Array): string {
  return (decodeCbor(event) as { data: { name: string } }).data.name;
}

/** Throws when the four ends of an event do not add up. */
export function assertReconciled({ delivery }: QueueUnderTest): void {
  const { produced, acked, rejected, spooled, queued } = delivery.counters;
  if (produced !== acked + rejected + spooled + queued || Math.min(acked, rejected, spooled, queued) < 0)
    throw new Error(`counters do not add up: ${JSON.stringify(delivery.counters)}`);
}
