/** Tokens as text. A character may be spread over several tokens: those are joined until it is whole. What is no text at all is shown as bytes; nothing is ever replaced. */
import type { Vocabulary } from './vocabulary.ts';

export type TokenText = {
  /** The tokens it is made of, in order: more than one where a character runs through them. */
  readonly ids: readonly number[];
} & (
  | { readonly kind: 'text' | 'special'; readonly text: string }
  | { readonly kind: 'bytes'; readonly hex: string }
  /** The vocabulary does not have the id. */
  | { readonly kind: 'unknown' }
);

/** Tokens that may be joined: a character has at most four bytes, but empty pieces may stand between them. */
const MAX_JOINED = 16;

export function joinPieces(ids: Iterable<number>, vocabulary: Vocabulary): TokenText[] {
  const texts: TokenText[] = [];
  let held: number[] = [];
  let bytes = Buffer.alloc(0);
  const giveUp = (): void => {
    if (held.length > 0) texts.push({ ids: held, kind: 'bytes', hex: bytes.toString('hex') });
    held = [];
    bytes = Buffer.alloc(0);
  };
  for (const id of ids) {
    const piece = vocabulary.bytesOf(id);
    const kind = vocabulary.kindOf(id);
    if (piece === null || kind === 'special') {
      giveUp();
      texts.push(piece === null ? { ids: [id], kind: 'unknown' } : { ids: [id], ...wholeOrBytes(Buffer.from(piece), 'special') });
      continue;
    }
    const joined = Buffer.concat([bytes, piece]);
    if (held.length > 0 && utf8State(joined) === 'broken') giveUp();
    bytes = Buffer.concat([bytes, piece]);
    held.push(id);
    const state = utf8State(bytes);
    if (state === 'whole') {
      texts.push({ ids: held, kind: 'text', text: bytes.toString() });
      held = [];
      bytes = Buffer.alloc(0);
    } else if (state === 'broken' || held.length >= MAX_JOINED) giveUp();
  }
  giveUp();
  return texts;
}

function wholeOrBytes(bytes: Buffer, kind: 'text' | 'special'): { kind: 'text' | 'special'; text: string } | { kind: 'bytes'; hex: string } {
  return utf8State(bytes) === 'whole' ? { kind, text: bytes.toString() } : { kind: 'bytes', hex: bytes.toString('hex') };
} // prettier-ignore

/** Whether bytes are UTF-8, the beginning of it, or neither. */
export function utf8State(bytes: Uint8Array): 'whole' | 'begun' | 'broken' {
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at] as number;
    const [length, low, high] = sequence(first);
    if (length === 0) return 'broken';
    for (let i = 1; i < length; i++) {
      const next = bytes[at + i];
      if (next === undefined) return 'begun';
      if (next < (i === 1 ? low : 0x80) || next > (i === 1 ? high : 0xbf)) return 'broken';
    }
    at += length;
  }
  return 'whole';
}

/** Length of the sequence a byte begins, and the range of its second byte (RFC 3629, table 3-7 of Unicode); 0 when it begins none. */
function sequence(first: number): readonly [length: number, low: number, high: number] {
  if (first <= 0x7f) return [1, 0, 0];
  if (first >= 0xc2 && first <= 0xdf) return [2, 0x80, 0xbf];
  if (first === 0xe0) return [3, 0xa0, 0xbf];
  if (first === 0xed) return [3, 0x80, 0x9f];
  if (first >= 0xe1 && first <= 0xef) return [3, 0x80, 0xbf];
  if (first === 0xf0) return [4, 0x90, 0xbf];
  if (first >= 0xf1 && first <= 0xf3) return [4, 0x80, 0xbf];
  if (first === 0xf4) return [4, 0x80, 0x8f];
  return [0, 0, 0];
}
