/** Scores on their way into the events topic: one append per partition; what is too long for an event goes to the blob store first. */
import type { Clock } from '../../base/clock.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { externalize } from '../../events/codec/blob-tags.ts';
import { EVENTS_VERSION } from '../../events/envelope.ts';
import { partitionKey } from '../../events/partition-key.ts';
import type { DataOf } from '../../events/registry.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog, LogRecord } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';

export type ScoreEvent = {
  readonly [T in 'reward.assigned' | 'reference.scored']: {
    readonly type: T;
    readonly id: string;
    readonly project: string;
    readonly run: string;
    readonly rollout: string;
    readonly trace: string;
    readonly data: DataOf<T>;
  };
}['reward.assigned' | 'reference.scored'];

export type AppendPorts = { readonly events: EventLog; readonly blobs: BlobStore; readonly clock: Clock };

/** Longer values of an event lie in the blob store, bytes. */
const INLINE_BYTES = 256 * 1024;

/** Resolves when all are durable. Errors: those of the log and the blob store. Sending the same again is safe: the ids say what is scored. */
export async function appendScores(
  scores: readonly ScoreEvent[],
  { events, blobs, clock }: AppendPorts,
  signal: AbortSignal,
): Promise<void> {
  const byPartition = new Map<number, LogRecord[]>();
  for (const score of scores) {
    const event = { v: EVENTS_VERSION, ...score, time: clock.nowMicros() };
    const key = partitionKey(event as never);
    const partition = partitionOf(key, events.partitions);
    const value = encodeEvent(event);
    const slim = externalize(value, INLINE_BYTES);
    for (const { content, mediaType } of slim?.blobs ?? []) await blobs.put(content, mediaType, signal);
    byPartition.set(partition, [...(byPartition.get(partition) ?? []), { key: Buffer.from(key, 'utf8'), value: slim?.slice ?? value }]);
  }
  await Promise.all([...byPartition].map(([partition, records]) => events.append(partition, records, signal)));
}
