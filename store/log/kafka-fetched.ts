import type { FetchedPart } from './kafka-client.ts';

/** One fetch waits at the broker for at most this long; a longer wait is several requests. Request timeouts lie above it. */
export const LONGEST_POLL_MS = 5000;

/**
 * Of one fetch per leader the first answer that holds records, without waiting for the others; when none does, all answers together. Rejects only when
 * no request brought records and one failed.
 */
export async function firstWithRecords(requests: readonly Promise<readonly FetchedPart[]>[]): Promise<readonly FetchedPart[]> {
  const found = requests.map(async (request) => {
    const parts = (await request).filter((part) => part.records.length > 0);
    if (parts.length === 0) throw new Error('nothing there');
    return parts;
  });
  return Promise.any(found).catch(async () => (await Promise.all(requests)).flat());
}
