/** Finds items without building values: one pass, nothing allocated per value. */
import { TapedeckError } from '../../base/errors.ts';
import { fail, ok, type Result } from '../../base/result.ts';
import {
  cborError,
  cursorOver,
  INDEFINITE,
  MAJOR,
  MAX_WALK_DEPTH,
  nextChunk,
  readHead,
  takeBreak,
  tooDeep,
  type Cursor,
} from './cbor-head.ts';

export type Range = { start: number; end: number };

/**
 * The byte range of every event of a request body: one array (of definite or indefinite length), one map, or a sequence of items that
 * begins with a map (RFC 8742). Checks structure, lengths and depth only: an item that is no map, or holds bad UTF-8 or unknown tags, is
 * returned here and refused alone by `decodeCbor` or `checkEvent`. Stops after `maxItems` ranges, so that a caller with a limit asks for
 * one more. Errors: `invalid_cbor`, `too_deep`; they refuse the whole body.
 */
export function splitCborItems(body: Uint8Array, maxItems = Infinity): Result<Range[]> {
  try {
    return ok(split(body, maxItems));
  } catch (error) {
    if (error instanceof TapedeckError) return fail(error.code, error.message);
    throw error;
  }
}

function split(body: Uint8Array, maxItems: number): Range[] {
  const c = cursorOver(body, 0, body.length);
  const items: Range[] = [];
  const take = (): void => {
    const start = c.at;
    skipItem(c, 1);
    items.push({ start, end: c.at });
  };
  if (body.length === 0)
    throw cborError('invalid_cbor', 'the body is empty: send an array of events, one event, or a sequence of events', 0);
  const first = (body[0] as number) >> 5;
  if (first === MAJOR.map) {
    while (c.at < c.end && items.length < maxItems) take();
    return items;
  }
  if (first !== MAJOR.array) throw cborError('invalid_cbor', 'the body must be an array of events, one event, or a sequence of events', 0);
  readHead(c);
  if (c.value === INDEFINITE) while (items.length < maxItems && !takeBreak(c)) take();
  else for (let left = Math.min(c.value, maxItems); left > 0; left--) take();
  if (c.at < c.end && items.length < maxItems) throw cborError('invalid_cbor', 'bytes follow the end of the array', c.at);
  return items;
}

/** Moves past one well-formed item. */
export function skipItem(c: Cursor, depth: number): void {
  readHead(c);
  skipBody(c, depth);
}

/** Moves past the rest of the item whose head was just read. */
export function skipBody(c: Cursor, depth: number): void {
  const { major, value } = c;
  if (major <= MAJOR.negative) return;
  if (major <= MAJOR.text) {
    if (value !== INDEFINITE) c.at += value;
    else while (nextChunk(c, major)) c.at += c.value;
    return;
  }
  if (major === MAJOR.simple) {
    checkSimple(c);
    return;
  }
  if (depth > MAX_WALK_DEPTH) throw tooDeep(c, MAX_WALK_DEPTH);
  if (major === MAJOR.tag) skipItem(c, depth + 1);
  else skipContainer(c, depth);
}

function skipContainer(c: Cursor, depth: number): void {
  const perEntry = c.major === MAJOR.map ? 2 : 1;
  if (c.value === INDEFINITE) {
    while (!takeBreak(c)) for (let i = 0; i < perEntry; i++) skipItem(c, depth + 1);
  } else {
    for (let left = c.value * perEntry; left > 0; left--) skipItem(c, depth + 1);
  }
}

function checkSimple(c: Cursor): void {
  if (c.value === INDEFINITE) throw cborError('invalid_cbor', 'a break outside an indefinite-length item', c.at - 1);
  if (c.info === 24 && c.value < 32) throw cborError('invalid_cbor', 'a simple value in the wrong form', c.at - 2);
}
