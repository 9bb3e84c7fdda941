/** Long lists of a decision lie in the blob store: out before it is appended, back before it is folded. */
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import type { BlobHandle } from '../../events/fields.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { FeedEvent } from './apply-decision.ts';
import type { Draft } from './draft.ts';

const LIST_TYPE = 'application/cbor';
/** A list longer than this leaves the event. */
const INLINE_ITEMS = 2000;

/** The draft with lists that fit an event. The blobs are durable when this resolves. */
export async function externalizeLists(draft: Draft, blobs: BlobStore, signal: AbortSignal): Promise<Draft> {
  const out = async <T>(list: readonly T[] | BlobHandle): Promise<BlobHandle | null> =>
    Array.isArray(list) && list.length > INLINE_ITEMS ? blobs.put(encodeEvent({ list }), LIST_TYPE, signal) : null;
  switch (draft.type) {
    case 'group.ready': {
      const members = await out(draft.data.members);
      return members === null ? draft : { ...draft, data: { ...draft.data, members } };
    }
    case 'group.closed': {
      const rollouts = await out(draft.data.rollouts);
      return rollouts === null ? draft : { ...draft, data: { ...draft.data, rollouts } };
    }
    case 'batch.cut': {
      const groups = await out(draft.data.groups ?? []);
      return groups === null ? draft : { ...draft, data: { ...draft.data, groups } };
    }
    default:
      return draft;
  }
}

/** The event with its lists put back. Errors: those of the blob store. */
export async function resolveLists(event: FeedEvent, blobs: BlobStore, signal: AbortSignal): Promise<FeedEvent> {
  switch (event.type) {
    case 'group.ready':
      return Array.isArray(event.data.members)
        ? event
        : { ...event, data: { ...event.data, members: await listIn<never>(event.data.members as BlobHandle, blobs, signal) } };
    case 'group.closed':
      return Array.isArray(event.data.rollouts)
        ? event
        : { ...event, data: { ...event.data, rollouts: await listIn<never>(event.data.rollouts as BlobHandle, blobs, signal) } };
    case 'batch.cut': {
      const { groups } = event.data;
      if (groups === null || groups === undefined || Array.isArray(groups)) return event;
      return { ...event, data: { ...event.data, groups: await listIn<never>(groups as BlobHandle, blobs, signal) } };
    }
    default:
      return event;
  }
}

async function listIn<T>(handle: BlobHandle, blobs: BlobStore, signal: AbortSignal): Promise<T[]> {
  return (decodeCbor(await blobs.get(handle.sha256, signal)) as { list: T[] }).list;
}
