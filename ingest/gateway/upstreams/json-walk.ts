/**
 * Steps over JSON text without building values: for finding a few members in long documents. The text must be JSON (or nearly: the bare NaN of Python passes);
 * what cannot be stepped over throws `Unreadable`, and the caller leaves the document as it came.
 */
export class Unreadable extends Error {}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export function skipSpace(text: string, at: number): number {
  let i = at;
  for (let c = text.charCodeAt(i); c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09; c = text.charCodeAt(++i));
  return i;
}

/** From an opening quote to behind the closing one. */
export function skipString(text: string, at: number): number {
  for (let quote = text.indexOf('"', at + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let before = quote - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    if (((quote - before) & 1) === 1) return quote + 1;
  }
  throw new Unreadable('a string without end');
}

/** From the first character of a value to behind its last. */
export function skipValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === QUOTE) return skipString(text, at);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return skipWord(text, at);
  let depth = 0;
  for (let i = at; i < text.length;) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) {
      i = skipString(text, i);
      continue;
    }
    i++;
    if (c === OPEN_BRACE || c === OPEN_BRACKET) depth++;
    else if ((c === CLOSE_BRACE || c === CLOSE_BRACKET) && --depth === 0) return i;
  }
  throw new Unreadable('a container without end');
}

/** Behind a number or a word. */
export function skipWord(text: string, at: number): number {
  let i = at;
  for (; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET || c <= 0x20) break;
  }
  if (i === at) throw new Unreadable('no value');
  return i;
}

/** Told about each member of an object: where its key begins, the key as written between its quotes, and where its value begins; answers where the value ends. */
export type OnMember = (key: string, keyAt: number, valueAt: number) => number;

/** Walks the members of the object at `at` and answers the place behind it. */
export function walkObject(text: string, at: number, onMember: OnMember): number {
  if (text.charCodeAt(at) !== OPEN_BRACE) throw new Unreadable('no object');
  let i = skipSpace(text, at + 1);
  if (text.charCodeAt(i) === CLOSE_BRACE) return i + 1;
  for (;;) {
    if (text.charCodeAt(i) !== QUOTE) throw new Unreadable('no key');
    const end = skipString(text, i);
    const colon = skipSpace(text, end);
    if (text.charCodeAt(colon) !== COLON) throw new Unreadable('no colon');
    i = skipSpace(text, onMember(text.slice(i + 1, end - 1), i, skipSpace(text, colon + 1)));
    const c = text.charCodeAt(i);
    if (c === CLOSE_BRACE) return i + 1;
    if (c !== COMMA) throw new Unreadable('no comma');
    i = skipSpace(text, i + 1);
  }
}

/** Walks the elements of the array at `at`; `onElement` answers where its element ends. Answers the place behind the array. */
export function walkArray(text: string, at: number, onElement: (at: number) => number): number {
  if (text.charCodeAt(at) !== OPEN_BRACKET) throw new Unreadable('no array');
  let i = skipSpace(text, at + 1);
  if (text.charCodeAt(i) === CLOSE_BRACKET) return i + 1;
  for (;;) {
    i = skipSpace(text, onElement(i));
    const c = text.charCodeAt(i);
    if (c === CLOSE_BRACKET) return i + 1;
    if (c !== COMMA) throw new Unreadable('no comma');
    i = skipSpace(text, i + 1);
  }
}

/** The members of the object that is the whole text, as ranges; a key that stands twice gives two. */
export function topMembers(
  text: string,
): { readonly key: string; readonly keyAt: number; readonly valueAt: number; readonly end: number }[] {
  const members: { key: string; keyAt: number; valueAt: number; end: number }[] = [];
  walkObject(text, skipSpace(text, 0), (key, keyAt, valueAt) => {
    const end = skipValue(text, valueAt);
    members.push({ key, keyAt, valueAt, end });
    return end;
  });
  return members;
}
