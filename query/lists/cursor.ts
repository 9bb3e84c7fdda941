/**
 * Cursors of lists. Each carries the sort values of the last row, the log position the list is read at, and what query it belongs to: so pages of one list fit together while rows arrive,
 * and a cursor of another query is refused with the part that differs.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { logPosition, positionText, type LogPosition, type WantedPosition } from '../positions/log-position.ts';
import type { KeyValue } from './sort.ts';

/** What a cursor is bound to, by name. */
export type QueryIdentity = { readonly resource: string; readonly project: string; readonly filter: string; readonly sort: string };

export type Cursor = { readonly position: LogPosition; readonly after: readonly KeyValue[] };

const MAX_TEXT = 16_384;
const HASH_CHARS = 8;

const content = z.strictObject({
  v: z.literal(1),
  r: z.string().max(64),
  h: z.array(z.string().max(HASH_CHARS)).length(3),
  p: logPosition,
  k: z.array(z.tuple([z.union([z.literal(0), z.literal(1), z.literal(2)]), z.string()])).max(32),
});

export function cursorText(identity: QueryIdentity, position: LogPosition, after: readonly KeyValue[]): string {
  const { resource, ...rest } = identity;
  const text = JSON.stringify({ v: 1, r: resource, h: hashes(rest), p: positionText(position), k: after });
  return Buffer.from(text).toString('base64url');
}

/** Reads a cursor of this very query. `invalid_cursor` says what it belongs to, or which part of the query changed. */
export function readCursor(text: string, identity: QueryIdentity, keys: number): Cursor {
  const parsed = content.safeParse(decoded(text));
  if (!parsed.success) throw noCursor();
  const { r, h, p, k } = parsed.data;
  if (r !== identity.resource) throw refused(`this is a cursor of ${r}, not of ${identity.resource}; begin again without one`);
  const { resource: _, ...rest } = identity;
  const now = hashes(rest);
  const changed = (['project', 'filter', 'sort'] as const).filter((_, at) => h[at] !== now[at]);
  if (changed.length > 0) {
    throw refused(
      `this cursor belongs to a query with another ${changed.join(' and ')}; repeat that query, or begin again without a cursor`,
    );
  }
  if (k.length !== keys) throw noCursor();
  return { position: p, after: k };
}

/** A later page is read at the position of the first: `asOf` may repeat that, and say nothing else. Errors: `invalid_cursor`. */
export function positionOfPage(cursor: Cursor | null, wanted: WantedPosition): WantedPosition {
  if (cursor === null) return wanted;
  const position = positionText(cursor.position);
  if (wanted === null || (wanted !== 'latest' && positionText(wanted) === position)) return cursor.position;
  throw refused(`the cursor is of a list as of ${position}: leave asOf out, or name that position`);
}

function decoded(text: string): unknown {
  if (text.length > MAX_TEXT) return undefined;
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
}

function hashes({ project, filter, sort }: Omit<QueryIdentity, 'resource'>): string[] {
  return [project, filter, sort].map((part) => createHash('sha256').update(part).digest('base64url').slice(0, HASH_CHARS));
}

/** What holds a cursor's parts, but none that a list gave. */
export function noCursor(): TapedeckError {
  return refused('this is no cursor of a list; begin again without one');
}

function refused(message: string): TapedeckError {
  return new TapedeckError('invalid_cursor', message);
}
