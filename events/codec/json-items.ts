/** Finds the events of a JSON body: brackets and strings only, nothing is parsed. */
import { TapedeckError } from '../../base/errors.ts';
import { fail, ok, type Result } from '../../base/result.ts';
import { asBuffer } from './cbor-head.ts';
import type { Range } from './cbor-items.ts';
import {
  CLOSE_ARRAY,
  COMMA,
  endsHere,
  jsonError,
  nextByte,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  unexpected,
  type JsonCursor,
} from './json-cursor.ts';
import { skipJsonString } from './json-strings.ts';

/** 1 for the bytes that decide where a value ends: quotes and brackets. */
const BRACKETS = Uint8Array.from({ length: 256 }, (_, b) => ('"{}[]'.includes(String.fromCharCode(b)) ? 1 : 0));

/**
 * The byte range of every event of a JSON body: one object, or an array. Looks at brackets and strings only: what is wrong inside an item is
 * found by `jsonToCbor`, for that item alone. Stops after `maxItems` ranges. Errors: `invalid_json`; it refuses the whole body.
 */
export function splitJsonItems(body: Uint8Array, maxItems = Infinity): Result<Range[]> {
  try {
    return ok(split({ bytes: asBuffer(body), at: startsWithBom(body) ? 3 : 0, end: body.length }, maxItems));
  } catch (error) {
    if (error instanceof TapedeckError) return fail(error.code, error.message);
    throw error;
  }
}

function split(c: JsonCursor, maxItems: number): Range[] {
  const first = nextByte(c);
  if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) throw unexpected(c, 'an object (one event) or an array of events');
  const items: Range[] = [];
  if (first === OPEN_OBJECT) {
    items.push(takeItem(c));
  } else {
    c.at++;
    if (nextByte(c) === CLOSE_ARRAY) c.at++;
    else {
      do items.push(takeItem(c));
      while (!endsHere(c, CLOSE_ARRAY) && items.length < maxItems);
    }
    if (items.length >= maxItems) return items;
  }
  if (nextByte(c) !== -1) throw jsonError('invalid_json', 'text follows the end of the body: send an array, or application/x-ndjson', c.at);
  return items;
}

function startsWithBom(body: Uint8Array): boolean {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
}

/** Moves past one value: a container by counting brackets of any kind, anything else up to the comma or bracket after it. */
function takeItem(c: JsonCursor): Range {
  const first = nextByte(c);
  const start = c.at;
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) skipContainer(c);
  else if (first === QUOTE) skipJsonString(c);
  else while (c.at < c.end && BRACKETS[c.bytes[c.at] as number] === 0 && c.bytes[c.at] !== COMMA) c.at++;
  if (c.at === start) throw unexpected(c, 'a value');
  return { start, end: c.at };
}

function isBracket(bytes: Buffer, p: number): number {
  return BRACKETS[bytes[p] as number] as number;
}

function skipContainer(c: JsonCursor): void {
  const { bytes, end } = c;
  let depth = 0;
  for (let p = c.at; p < end; p++) {
    while (p + 4 <= end && (isBracket(bytes, p) | isBracket(bytes, p + 1) | isBracket(bytes, p + 2) | isBracket(bytes, p + 3)) === 0)
      p += 4;
    if (p >= end) break;
    const b = bytes[p] as number;
    if (BRACKETS[b] === 0) continue;
    if (b === QUOTE) {
      c.at = p;
      skipJsonString(c);
      p = c.at - 1;
    } else if (b === OPEN_OBJECT || b === OPEN_ARRAY) {
      depth++;
    } else if (--depth === 0) {
      c.at = p + 1;
      return;
    }
  }
  c.at = end;
  throw unexpected(c, 'the end of an event');
}

/** The non-blank lines of a newline-delimited body, whatever is in them; a last line that was cut off is a line too. */
export function splitNdjson(body: Uint8Array, maxItems = Infinity): Range[] {
  const bytes = asBuffer(body);
  const items: Range[] = [];
  let start = startsWithBom(body) ? 3 : 0;
  while (start < bytes.length && items.length < maxItems) {
    const newline = bytes.indexOf(0x0a, start);
    const end = newline < 0 ? bytes.length : newline;
    if (nextByte({ bytes, at: start, end }) !== -1) items.push({ start, end });
    start = end + 1;
  }
  return items;
}
