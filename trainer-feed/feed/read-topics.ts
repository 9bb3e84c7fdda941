/** Reads what concerns a feed out of both topics and folds it in. */
import { setImmediate } from 'node:timers/promises';
import { blobHandles, internalize } from '../../events/codec/blob-tags.ts';
import { readEvent } from '../../events/read-event.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { EVENT_TYPES } from '../../events/registry.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { rolloutKey } from '../groups/keys.ts';
import type { FeedEvent, Verdict } from './apply-decision.ts';
import type { Cancellation } from './cancellations.ts';
import { advance, foldDecision, foldEvent, type FeedFold } from './fold.ts';
import { resolveLists } from './resolve-lists.ts';

const DECISION_BYTES = 1024 * 1024;
/** After so many events others may run. */
const EVENTS_AT_A_TIME = 100;

export type DecisionRead = { readonly id: string; readonly event: FeedEvent; readonly verdict: Verdict };

/** Folds all decisions of the feed's partition up to its present end. Returns whether there were any. */
export async function readDecisions(
  fold: FeedFold,
  feeds: EventLog,
  partition: number,
  blobs: BlobStore,
  onRead: (read: DecisionRead) => void,
  signal: AbortSignal,
): Promise<boolean> {
  const key = Buffer.from(fold.decisions.feed, 'utf8');
  let any = false;
  for (;;) {
    const chunk = await feeds.read(partition, fold.nextDecision, { maxBytes: DECISION_BYTES, signal });
    for (const [i, record] of chunk.records.entries()) {
      if (i % EVENTS_AT_A_TIME === EVENTS_AT_A_TIME - 1) await setImmediate();
      if (!key.equals(record.key)) continue;
      const event = feedEventOf(record.value, fold.decisions.project);
      if (event === null) continue;
      const verdict = foldDecision(fold, await resolveLists(event, blobs, signal), record.offset);
      any = true;
      onRead({ id: event.id, event, verdict });
    }
    fold.nextDecision = Math.max(fold.nextDecision, chunk.next);
    if (chunk.records.length === 0 || chunk.next >= chunk.end) return any;
  }
}

/** A record of the feeds topic as an event of `project`; null when it is none we can read, or of another project. */
export function feedEventOf(value: Uint8Array, project: string): FeedEvent | null {
  const read = readEvent(value);
  if (!read.ok || EVENT_TYPES[read.value.type].topic !== 'feeds' || (read.value.project ?? DEFAULT_PROJECT) !== project) return null;
  return read.value as FeedEvent;
}

/** Folds at most about `maxBytes` of each partition. Returns whether everything was read that was there. */
export async function readFacts(
  fold: FeedFold,
  events: EventLog,
  blobs: BlobStore,
  maxBytes: number,
  onCancelled: (cancelled: Omit<Cancellation, 'sequence'>) => void,
  signal: AbortSignal,
): Promise<boolean> {
  let toTheEnd = true;
  for (const [partition, from] of fold.facts.positions.entries()) {
    const chunk = await events.read(partition, from, { maxBytes, signal });
    for (const [i, record] of chunk.records.entries()) {
      if (i % EVENTS_AT_A_TIME === EVENTS_AT_A_TIME - 1) await setImmediate();
      const slice = await wholeRecord(record.value, blobs, signal);
      const read = readEvent(slice);
      if (!read.ok) continue;
      const event = read.value;
      foldEvent(fold, event, { partition, offset: record.offset });
      if (event.type === 'rollout.cancelled' && isAdmitted(fold, event.run ?? '', event.rollout ?? '')) {
        onCancelled({ run: event.run ?? '', rollout: event.rollout ?? '', reason: event.data.reason, time: event.time });
      }
    }
    advance(fold, partition, chunk.next);
    if (chunk.next < chunk.end) toTheEnd = false;
  }
  return toTheEnd;
}

/** Whether the feed has the rollout among its facts: of others nobody need be told. */
function isAdmitted({ facts }: FeedFold, run: string, rollout: string): boolean {
  return facts.rollouts.get(rolloutKey(run, rollout))?.start !== null && facts.rollouts.has(rolloutKey(run, rollout));
}

/** The head of tag 1952542821 ("tape"): da 74 61 70 65. Blob tags are rare, and this search is fast. */
const TAG_HEAD = Buffer.from([0xda, 0x74, 0x61, 0x70, 0x65]);

/** The record with large values put back, where it has any. */
export async function wholeRecord(slice: Uint8Array, blobs: BlobStore, signal: AbortSignal): Promise<Uint8Array> {
  if (!Buffer.from(slice.buffer, slice.byteOffset, slice.byteLength).includes(TAG_HEAD) || blobHandles(slice).length === 0) return slice;
  return internalize(slice, (sha256) => blobs.get(sha256, signal));
}
