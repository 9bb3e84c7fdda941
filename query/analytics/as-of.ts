/**
 * A log position as people write it, and as a condition in SQL. A position names the last record that counts in each log partition: `0:1234,1:99,f0:12`, `f` for
 * the topic of feeds. A partition that is not named counts with nothing. The log only grows at its ends, so what a position means never changes.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import { FEEDS_PARTITION_BASE, logPartition, storePartition } from '../../store/columns/projections/position.ts';

/** Partition as the store numbers it -> offset of the last record that counts. */
export type Position = ReadonlyMap<number, number>;

/** What a request asked for. */
export type AsOf =
  | { readonly kind: 'latest' }
  | { readonly kind: 'position'; readonly position: Position }
  | { readonly kind: 'time'; readonly micros: number };

/** The position before every record. */
const EMPTY = 'empty';
const PART = /^(f?)(\d{1,5}):(\d{1,16})$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$/;
const MICROS = /^\d{1,16}$/;
const MAX_LENGTH = 200_000;

/** `latest`, a position, a time as RFC 3339 with its zone, or a time in whole microseconds since 1970. */
export function parseAsOf(text: string): Result<AsOf> {
  if (text === 'latest') return ok({ kind: 'latest' });
  if (text === EMPTY) return ok({ kind: 'position', position: new Map() });
  if (MICROS.test(text)) return ok({ kind: 'time', micros: Number(text) });
  if (TIME.test(text)) return parseTime(text);
  if (text.length > MAX_LENGTH) return bad(`is longer than ${MAX_LENGTH} characters`);
  const position = new Map<number, number>();
  for (const part of text.split(',')) {
    const match = PART.exec(part);
    const partition = Number(match?.[2]);
    const offset = Number(match?.[3]);
    if (match === null || partition >= FEEDS_PARTITION_BASE || !Number.isSafeInteger(offset)) {
      return bad('is neither latest, nor a position such as 0:1234,1:99,f0:12, nor a time such as 2026-01-31T12:00:00Z');
    }
    const stored = storePartition(match[1] === 'f' ? 'feeds' : 'events', partition);
    if (position.has(stored)) return bad(`names the partition ${match[1]}${partition} twice`);
    position.set(stored, offset);
  }
  return ok({ kind: 'position', position });
}

/** Date.parse knows milliseconds only; the digits behind them are added as they are. */
function parseTime(text: string): Result<AsOf> {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? '';
  const seconds = Date.parse(text.replace(/\.\d+/, ''));
  if (Number.isNaN(seconds)) return bad('is no time: write it as 2026-01-31T12:00:00Z');
  return ok({ kind: 'time', micros: seconds * 1000 + Number(fraction.padEnd(6, '0')) });
}

function bad(problem: string): Result<AsOf> {
  return fail('bad_request', `asOf ${problem}`, 'asOf');
}

export function formatPosition(position: Position): string {
  if (position.size === 0) return EMPTY;
  const parts = [...position].toSorted(([a], [b]) => a - b);
  return parts
    .map(([stored, offset]) => {
      const { topic, partition } = logPartition(stored);
      return `${topic === 'feeds' ? 'f' : ''}${partition}:${offset}`;
    })
    .join(',');
}

/** The SQL condition that a row lies at or before the position. `alias` stands in front of its columns, dot included. */
export function upTo(position: Position, alias = ''): string {
  if (position.size === 0) return '0';
  const parts = [...position];
  const partitions = parts.map(([partition]) => partition).join(',');
  const ends = parts.map(([, offset]) => `${offset + 1}`).join(',');
  return `${alias}_offset < transform(toUInt64(${alias}_partition), [${partitions}], [${ends}], 0)`;
}
