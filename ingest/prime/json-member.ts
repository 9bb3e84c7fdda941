/** Finds one member of a JSON object in its text, so that a large body need not be parsed as a whole. Looks at strings and brackets only. */
import { fail, ok, type Result } from '../../base/result.ts';

export type TextRange = { readonly start: number; readonly end: number };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Where the value of `key` lies; null when the object has no such member. What is wrong inside other values is not seen. */
export function memberOf(text: Buffer, key: string): Result<TextRange | null> {
  let at = skipSpace(text, text[0] === 0xef ? 3 : 0);
  if (text[at] !== OPEN_OBJECT) return fail('wrong_type', 'the body must be a JSON object');
  at = skipSpace(text, at + 1);
  let found: TextRange | null = null;
  while (text[at] === QUOTE) {
    const nameEnd = skipString(text, at);
    const colon = skipSpace(text, nameEnd);
    if (text[colon] !== COLON) return broken(colon);
    const start = skipSpace(text, colon + 1);
    const end = skipValue(text, start);
    if (end === start || end > text.length) return broken(start);
    if (nameOf(text.subarray(at, nameEnd)) === key) found = { start, end };
    at = skipSpace(text, end);
    if (text[at] === COMMA) at = skipSpace(text, at + 1);
    else break;
  }
  if (text[at] !== CLOSE_OBJECT || skipSpace(text, at + 1) < text.length) return broken(at);
  return ok(found);
}

function broken(at: number): Result<never> {
  return fail('invalid_json', `the body is not a JSON object: unexpected text at byte ${at}`);
}

function nameOf(quoted: Buffer): string | null {
  try {
    return JSON.parse(quoted.toString()) as string;
  } catch {
    return null;
  }
}

function skipSpace(text: Buffer, from: number): number {
  let at = from;
  for (let byte = text[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; byte = text[at]) at++;
  return at;
}

/** Behind the closing quote; beyond the text when there is none. */
function skipString(text: Buffer, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== QUOTE) at += text[at] === BACKSLASH ? 2 : 1;
  return at + 1;
}

function skipValue(text: Buffer, from: number): number {
  const first = text[from];
  if (first === QUOTE) return skipString(text, from);
  let at = from;
  if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) {
    while (at < text.length && text[at] !== COMMA && text[at] !== CLOSE_OBJECT && text[at] !== CLOSE_ARRAY) at++;
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const byte = text[at] as number;
    if (byte === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    at++;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++;
    else if ((byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) && --depth === 0) return at;
  }
  return text.length + 1;
}
