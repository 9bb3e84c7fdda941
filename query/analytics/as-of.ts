/**
 * The log position that a question is asked at, and its condition in SQL. As text it is what the whole API uses (positions/log-position.ts): for each partition the
 * offset up to which it counts. A partition beyond those named counts with nothing. The log only grows at its ends, so what a position means never changes.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import { logPartition, storePartition } from '../../store/columns/projections/position.ts';
import { parsePosition, positionText } from '../positions/log-position.ts';
import { microsOfText } from '../positions/time-text.ts';

/** Partition as the store numbers it -> offset of the last record that counts. Partitions of which nothing counts are not in it. */
export type Position = ReadonlyMap<number, number>;

/** What a request asked for. */
export type AsOf =
  | { readonly kind: 'latest' }
  | { readonly kind: 'position'; readonly position: Position }
  | { readonly kind: 'time'; readonly micros: number };

const DATE = /^\d{4}-/;
const MICROS = /^\d{1,16}$/;

/** `latest`, a position, a time as RFC 3339 with its zone, or a time in whole microseconds since 1970. */
export function parseAsOf(text: string): Result<AsOf> {
  if (text === 'latest') return ok({ kind: 'latest' });
  if (MICROS.test(text)) return ok({ kind: 'time', micros: Number(text) });
  if (DATE.test(text)) return parseTime(text);
  const position = parsePosition(text);
  if (position === null) return bad('is neither latest, nor a position such as 1024.998.0.7~12, nor a time such as 2026-01-31T12:00:00Z');
  const parts = (['events', 'feeds'] as const).flatMap((topic) =>
    position[topic].map((next, partition): [number, number] => [storePartition(topic, partition), next - 1]),
  );
  return ok({ kind: 'position', position: new Map(parts.filter(([, offset]) => offset >= 0)) });
}

function parseTime(text: string): Result<AsOf> {
  const micros = microsOfText(text);
  if (micros === null || micros < 0n) return bad('is no time from 1970 on: write it as 2026-01-31T12:00:00Z');
  return ok({ kind: 'time', micros: Number(micros) });
}

function bad(problem: string): Result<AsOf> {
  return fail('bad_request', `asOf ${problem}`, 'asOf');
}

export function formatPosition(position: Position): string {
  const next: { events: number[]; feeds: number[] } = { events: [], feeds: [] };
  for (const [stored, offset] of position) {
    const { topic, partition } = logPartition(stored);
    next[topic][partition] = offset + 1;
  }
  // partitions in between that hold nothing are 0
  return positionText({ events: Array.from(next.events, (n) => n ?? 0), feeds: Array.from(next.feeds, (n) => n ?? 0) });
}

/** The SQL condition that a row lies at or before the position. `alias` stands in front of its columns, dot included. */
export function upTo(position: Position, alias = ''): string {
  if (position.size === 0) return '0';
  const parts = [...position];
  const partitions = parts.map(([partition]) => partition).join(',');
  const ends = parts.map(([, offset]) => `${offset + 1}`).join(',');
  return `${alias}_offset < transform(toUInt64(${alias}_partition), [${partitions}], [${ends}], 0)`;
}
