/** Turns gathered records into events: large values put back, decoded, checked, hashed. What cannot be read is set apart with its reason. */
import type { Problem } from '../../../base/result.ts';
import { blobHandles, internalize } from '../../../events/codec/blob-tags.ts';
import { contentHash } from '../../../events/content-hash.ts';
import { readEvent } from '../../../events/read-event.ts';
import type { StoredEvent } from '../projections/stored-event.ts';
import type { Gathered } from './gather.ts';

/** A record that is no event we can project. The log keeps it; it is dead-lettered with the reason. */
export type Unreadable = {
  readonly topic: StoredEvent['topic'];
  readonly partition: number;
  readonly offset: number;
  readonly slice: Uint8Array;
  readonly problem: Problem;
};

export type ReadBlock = { readonly events: readonly StoredEvent[]; readonly unreadable: readonly Unreadable[] };

export async function readBlock(
  gathered: Gathered,
  topic: StoredEvent['topic'],
  fetchBlob: (sha256: string) => Promise<Uint8Array>,
): Promise<ReadBlock> {
  const events: StoredEvent[] = [];
  const unreadable: Unreadable[] = [];
  for (const { partition, record } of gathered.records) {
    const { offset } = record;
    const slice = await whole(record.value, fetchBlob);
    const read = readEvent(slice);
    if (read.ok) events.push({ event: read.value, slice, partition, offset, hash: contentHash(slice), topic });
    else unreadable.push({ topic, partition, offset, slice: record.value, problem: read.error });
  }
  return { events, unreadable };
}

/** Blob tags are rare: a slice under the smallest possible handle, or without the tag's bytes, is passed through untouched. */
async function whole(slice: Uint8Array, fetchBlob: (sha256: string) => Promise<Uint8Array>): Promise<Uint8Array> {
  if (!mayHoldBlobs(slice)) return slice;
  return blobHandles(slice).length > 0 ? internalize(slice, fetchBlob) : slice;
}

/** The head of tag 1952542821 ("tape"): da 74 61 70 65. */
const TAG_HEAD = Buffer.from([0xda, 0x74, 0x61, 0x70, 0x65]);

function mayHoldBlobs(slice: Uint8Array): boolean {
  return Buffer.from(slice.buffer, slice.byteOffset, slice.byteLength).includes(TAG_HEAD);
}
