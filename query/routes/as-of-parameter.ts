/** The parameter `asOf` that every question about a state takes. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { readValue } from '../lists/filter-value.ts';
import type { WantedPosition } from '../lists/read-list.ts';
import { parsePosition } from '../positions/log-position.ts';
import { positionAtTime } from '../positions/read-position.ts';

export const AS_OF =
  'A log position as an answer gave it (`1024.998~12`), `latest`, or a time (RFC 3339, or microseconds): the state before the first later event of each partition. ' +
  'Absent: the newest state whose summaries are complete.';

/** Errors: `bad_request`. */
export async function readAsOf(
  store: ColumnStore,
  project: string,
  text: string | undefined,
  options: QueryOptions,
): Promise<WantedPosition> {
  if (text === undefined) return null;
  if (text === 'latest') return 'latest';
  const position = parsePosition(text);
  if (position !== null) return position;
  const time = readValue('time', text);
  if (!time.ok || (time.value as bigint) < 0n || (time.value as bigint) > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new TapedeckError('bad_request', 'asOf: must be a log position, latest, a time in RFC 3339 or integer microseconds');
  }
  return positionAtTime(store, project, Number(time.value), options);
}
