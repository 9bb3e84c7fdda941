/** The lists that decisions of a feed name in the blob store: rows and exclusions of a batch, places of its rows under a plan. */
import { isTapedeckError } from '../../../base/errors.ts';
import { fail, ok, type Result } from '../../../base/result.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { decodeExcludedList, decodePlaces, decodeRowList } from '../../../events/row-list.ts';
import type { FeedLists } from '../projections/stored-event.ts';

type Handle = { readonly sha256: string } | null | undefined;

/** Undefined for events that name none. An error (`blob_corrupt`) is about a list that is there and is none we can read; those of the blob store are thrown. */
export async function fetchLists(
  event: TapedeckEvent,
  fetchBlob: (sha256: string) => Promise<Uint8Array>,
): Promise<Result<FeedLists | undefined>> {
  if (event.type !== 'batch.cut' && event.type !== 'batch.leased') return ok(undefined);
  const bytesOf = async (handle: Handle): Promise<Uint8Array | null> =>
    handle === null || handle === undefined ? null : fetchBlob(handle.sha256);
  const cut = event.type === 'batch.cut' ? event.data : null;
  const [rows, excluded] = await Promise.all([bytesOf(cut?.rows), bytesOf(cut?.excluded)]);
  const places = await bytesOf(event.type === 'batch.leased' ? event.data.assignment : null);
  try {
    return ok({
      rows: rows === null ? [] : (await decodeRowList(rows)).rows,
      excluded: excluded === null ? [] : await decodeExcludedList(excluded),
      places: places === null ? [] : await decodePlaces(places),
    });
  } catch (error) {
    if (!isTapedeckError(error, 'blob_corrupt')) throw error;
    return fail('blob_corrupt', `a list that ${event.type} names cannot be read: ${error.message}`, 'data');
  }
}
