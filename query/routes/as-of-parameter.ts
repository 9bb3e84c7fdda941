/** The parameter `asOf` that every question about a state takes. */
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { readValue } from '../lists/filter-value.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { parsePosition, type LogPosition, type WantedPosition } from '../positions/log-position.ts';
import { heldPosition, positionAtTime, storedPosition } from '../positions/read-position.ts';

export const AS_OF_FORMS =
  'A log position as an answer gave it (`1024.998~12`), `latest`, or a time (RFC 3339, or microseconds): the state before the first later event of each partition. ';
export const AS_OF = `${AS_OF_FORMS}Absent: the newest state whose summaries are complete.`;
/** Answers that are not JSON say here which position they are true of. */
export const AS_OF_HEADER = 'x-tapedeck-as-of';
/** The parameter of questions that read facts only. */
export const factsAsOf = z
  .string()
  .max(40_000)
  .optional()
  .meta({ description: `${AS_OF_FORMS}Absent: everything stored.` });

/** Errors: `bad_request`; `not_ready` for a position that the store has not come to. */
export async function readAsOf(
  store: ColumnStore,
  project: string,
  text: string | undefined,
  options: QueryOptions,
): Promise<WantedPosition> {
  if (text === undefined) return null;
  if (text === 'latest') return 'latest';
  const position = parsePosition(text);
  if (position !== null) return heldPosition(position, await storedPosition(store, options), 'the store');
  const time = readValue('time', text);
  if (!time.ok || (time.value as bigint) < 0n || (time.value as bigint) > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new TapedeckError('bad_request', 'asOf: must be a log position, latest, a time in RFC 3339 or integer microseconds');
  }
  return positionAtTime(store, project, Number(time.value), options);
}

/** A question that reads facts only, with the position that its `asOf` means. */
export async function placed<T extends { readonly project: string; readonly asOf?: string | undefined }>(
  store: ColumnStore,
  { asOf, ...asked }: T,
  signal: AbortSignal,
): Promise<Omit<T, 'asOf'> & { position: LogPosition; signal: AbortSignal }> {
  const options = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
  const wanted = await readAsOf(store, asked.project, asOf, options);
  return { ...asked, position: wanted === null || wanted === 'latest' ? await storedPosition(store, options) : wanted, signal };
}
