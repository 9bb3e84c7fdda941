/**
 * Turns gathered records into items: large values put back, decoded, checked, hashed. Each event is projected at once, as if it will be stored, which nearly all
 * are: so no block of decoded events is ever held in memory. What the decisions then say otherwise is mended by filling the block again (store-block.ts).
 */
import { setImmediate } from 'node:timers/promises';
import type { Problem } from '../../../base/result.ts';
import { blobHandles, internalize } from '../../../events/codec/blob-tags.ts';
import { contentHash } from '../../../events/content-hash.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { readEvent } from '../../../events/read-event.ts';
import type { TapedeckEvent, Topic } from '../../../events/registry.ts';
import type { StoredRecord } from '../../log/event-log.ts';
import type { Block } from '../projections/block.ts';
import { ledger, NO_REASON } from '../projections/ledger.ts';
import { storePartition } from '../projections/position.ts';
import { project } from '../projections/project.ts';
import type { FeedLists, StoredEvent } from '../projections/stored-event.ts';
import { entityOf, type Candidate } from './classify.ts';
import { fetchLists } from './feed-lists.ts';
import type { Gathered } from './gather.ts';

/** One record of a block: what decides about it, or why it is no event we can project. The log keeps it in either case. */
export type Item = {
  readonly topic: Topic;
  readonly partition: number;
  readonly offset: number;
  /** The record with large values put back. */
  readonly slice: Uint8Array;
  readonly candidate: Candidate | null;
  readonly problem: Problem | null;
  /** What the lists hold that the event names. */
  readonly lists: FeedLists | undefined;
};

/** `candidates` are those of the items, without what is no event. `asStored`: the block holds the rows of all items as stored events; false when some item cannot be. */
export type ReadBlock = { readonly items: readonly Item[]; readonly candidates: readonly Candidate[]; readonly asStored: boolean };

/** After these the event loop may turn: the inserts of the block before go on meanwhile. */
const EVENTS_AT_A_TIME = 50;

const NO_LISTS = { ok: true, value: undefined } as const;

type FetchBlob = (sha256: string) => Promise<Uint8Array>;

/** Fills `block` with the rows of everything that was gathered. */
export async function readBlock(gathered: Gathered, topic: Topic, fetchBlob: FetchBlob, block: Block): Promise<ReadBlock> {
  const items: Item[] = [];
  const candidates: Candidate[] = [];
  let asStored = true;
  block.clear();
  for (let partition = 0; partition < gathered.records.length; partition++) {
    for (const { offset, value } of gathered.records[partition] as readonly StoredRecord[]) {
      if (items.length % EVENTS_AT_A_TIME === 0) await setImmediate();
      let slice = value;
      let read = readEvent(slice);
      // a value in the blob store cannot be decoded, so the search for one is left to events that cannot
      if (!read.ok && mayHoldBlobs(slice)) {
        slice = await whole(slice, fetchBlob);
        read = readEvent(slice);
      }
      const listed = topic === 'feeds' && read.ok ? await fetchLists(read.value, fetchBlob) : NO_LISTS;
      const lists = listed.ok ? listed.value : undefined;
      if (!read.ok || !listed.ok) {
        const problem = read.ok ? (listed as { readonly error: Problem }).error : read.error;
        items.push({ topic, partition, offset, slice, candidate: null, problem, lists });
        asStored = false;
        continue;
      }
      const stored: StoredEvent = { topic, partition, offset, slice, event: read.value, hash: contentHash(slice), lists };
      const candidate = candidateOf(stored);
      candidates.push(candidate);
      items.push({ topic, partition, offset, slice, candidate, problem: null, lists });
      asStored &&= projectStored(stored, block);
    }
  }
  return { items, candidates, asStored };
}

/** False when the projection fails: the block then may hold half a row. */
function projectStored(stored: StoredEvent, block: Block): boolean {
  try {
    project(stored, block);
    ledger(stored, 'stored', NO_REASON, block);
    return true;
  } catch {
    return false;
  }
}

/** Decodes an item again, whose event was let go. */
export function storedOf(item: Item): StoredEvent {
  const read = readEvent(item.slice);
  if (!read.ok) throw new Error('an event could be read once and cannot be read again');
  const { topic, partition, offset, slice, lists } = item;
  return { topic, partition, offset, slice, event: read.value, hash: contentHash(slice), lists };
}

function candidateOf({ event, topic, partition, offset, hash }: StoredEvent): Candidate {
  return {
    id: event.id,
    type: event.type,
    project: event.project ?? DEFAULT_PROJECT,
    run: event.run,
    rollout: event.rollout,
    partition: storePartition(topic, partition),
    offset,
    eventHash: hash.event,
    dataHash: hash.data,
    entity: entityOf(event satisfies TapedeckEvent),
  };
}

async function whole(slice: Uint8Array, fetchBlob: FetchBlob): Promise<Uint8Array> {
  return blobHandles(slice).length > 0 ? internalize(slice, fetchBlob) : slice;
}

/** The head of tag 1952542821 ("tape"): da 74 61 70 65. Blob tags are rare, and this search is fast. */
const TAG_HEAD = Buffer.from([0xda, 0x74, 0x61, 0x70, 0x65]);

function mayHoldBlobs(slice: Uint8Array): boolean {
  return Buffer.from(slice.buffer, slice.byteOffset, slice.byteLength).includes(TAG_HEAD);
}
