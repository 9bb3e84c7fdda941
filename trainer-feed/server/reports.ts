/**
 * What trainers and feeds say becomes events of the events topic. A report is named by a key: sent again it is the same event, byte for byte, and adds nothing; something else under the
 * same key is refused. What was reported is known from the log, which the feed folds, and, until it has read that far, from what this process sent.
 */
import { hash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { uuidV8 } from '../../base/uuid.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { EVENTS_VERSION } from '../../events/envelope.ts';
import { partitionKey } from '../../events/partition-key.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { awaitFeed } from '../feed/await-feed.ts';
import type { FeedEngine } from '../feed/engine.ts';
import { dataDigest } from '../groups/report-facts.ts';

export type Report = {
  readonly type: 'policy.published' | 'trainer.stepped' | 'rollout.cancelled';
  readonly project: string;
  readonly run: string;
  readonly rollout?: string;
  readonly data: object;
};

/** `time` of the event, so that it is the same when it is sent again; `durable`: whether an append of it was acknowledged. */
type Sent = { readonly digest: string; readonly time: number; durable: boolean };

const KEPT = 10_000;
/** A feed that has much to read answers by what it has read. */
const CATCH_UP_MS = 20_000;

export class Reports {
  readonly #events: EventLog;
  readonly #clock: Clock;
  readonly #sent = new Map<string, Sent>();
  /** Feeds that have read what was reported before this process began. */
  readonly #known = new WeakSet<FeedEngine>();

  constructor({ events, clock }: { readonly events: EventLog; readonly clock: Clock }) {
    this.#events = events;
    this.#clock = clock;
  }

  /** Resolves when the report is in the log. `engine` is the feed that folds it, if one does. Errors: `report_conflict`; those of an append. */
  async send(report: Report, key: readonly unknown[], engine: FeedEngine | null, signal: AbortSignal): Promise<void> {
    const { type, project, run } = report;
    if (engine !== null) await this.#catchUp(engine, signal);
    const id = uuidV8(hash('sha256', JSON.stringify([project, run, type, ...key]), 'buffer'));
    const known = this.#sent.get(id);
    const whole = { v: EVENTS_VERSION, id, ...report, time: known?.time ?? this.#clock.nowMicros() };
    const value = encodeEvent(whole);
    const digest = dataDigest(value);
    const before = known ?? engine?.fold?.facts.reports.get(id);
    if (before !== undefined && before.digest !== digest) throw conflict(type, key);
    if (before !== undefined && known?.durable !== false) return;
    const sent = known ?? this.#remember(id, { digest, time: whole.time, durable: false });
    const of = partitionKey(whole as never);
    await this.#events.append(partitionOf(of, this.#events.partitions), [{ key: Buffer.from(of, 'utf8'), value }]);
    sent.durable = true;
  }

  async #catchUp(engine: FeedEngine, signal: AbortSignal): Promise<void> {
    if (this.#known.has(engine)) return;
    const isThere = (): true | null => (engine.view.caughtUp || engine.view.paused ? true : null);
    await awaitFeed(engine, this.#clock, CATCH_UP_MS, isThere, signal);
    this.#known.add(engine);
  }

  #remember(id: string, sent: Sent): Sent {
    this.#sent.set(id, sent);
    const [oldest] = this.#sent.keys();
    if (this.#sent.size > KEPT && oldest !== undefined) this.#sent.delete(oldest);
    return sent;
  }
}

function conflict(type: Report['type'], key: readonly unknown[]): TapedeckError {
  const [feed, timeline, n] = key;
  const what = type === 'policy.published' ? `version ${String(n)} was published` : `step ${String(n)} was reported`;
  return new TapedeckError(
    'report_conflict',
    `on timeline ${String(timeline)} of feed ${String(feed)} ${what} with other content, which stands: send the same content again, or the next ${type === 'policy.published' ? 'version' : 'step'}`,
    { details: { feed, timeline, n } },
  );
}
