import type { ContentHash } from '../../../events/content-hash.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import type { EventOf, EventType, TapedeckEvent, Topic } from '../../../events/registry.ts';
import type { ListedExclusion, ListedPlace, ListedRow } from '../../../events/row-list.ts';
import { storePartition } from './position.ts';

/** A checked event at its place in the log. `slice` are its original CBOR bytes; hashes are 16 bytes each, in hexadecimal text (events/content-hash.ts). */
export type StoredEvent<E extends TapedeckEvent = TapedeckEvent> = {
  readonly event: E;
  readonly slice: Uint8Array;
  readonly topic: Topic;
  readonly partition: number;
  readonly offset: number;
  readonly hash: ContentHash;
  /** What the lists hold that the event names in the blob store; absent for events that name none. */
  readonly lists?: FeedLists | undefined;
};

/** Rows and exclusions of a batch.cut, places of a batch.leased. */
export type FeedLists = {
  readonly rows: readonly ListedRow[];
  readonly excluded: readonly ListedExclusion[];
  readonly places: readonly ListedPlace[];
};

export type StoredOf<T extends EventType> = StoredEvent<EventOf<T>>;

export function positionOf(stored: Pick<StoredEvent, 'topic' | 'partition' | 'offset'>): { _partition: number; _offset: number } {
  return { _partition: storePartition(stored.topic, stored.partition), _offset: stored.offset };
}

/** The ids of the envelope as key columns: absent ids are empty. */
export function keysOf(event: TapedeckEvent): { project: string; run: string; rollout: string; trace: string } {
  return { project: event.project ?? DEFAULT_PROJECT, run: event.run ?? '', rollout: event.rollout ?? '', trace: event.trace ?? '' };
}
