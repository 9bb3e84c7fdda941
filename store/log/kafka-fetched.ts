import type { FetchedPart } from './kafka-client.ts';

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
