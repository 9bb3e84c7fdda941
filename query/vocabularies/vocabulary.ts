/**
 * A vocabulary: the bytes of every token id, as one table that is named by its own sha256. Bytes, not text: a piece may be a part of a character.
 *
 * Layout, little-endian: `TDVOCAB1`, number of ids (uint32), one kind per id (uint8: 0 no such id, 1 piece, 2 special token), padding to 4 bytes, where each piece begins
 * (uint32 per id, and the end), the bytes of all pieces.
 */
import { createHash } from 'node:crypto';
import type { Result } from '../../base/result.ts';
import { fail, ok } from '../../base/result.ts';

export const VOCABULARY_MEDIA_TYPE = 'application/vnd.tapedeck.vocabulary';
const MAGIC = Buffer.from('TDVOCAB1');
const HEAD_BYTES = 12;
export const MAX_VOCABULARY_BYTES = 128 * 1024 * 1024;
const MAX_IDS = 4 * 1024 * 1024;

export type PieceKind = 'none' | 'piece' | 'special';
const KINDS: readonly PieceKind[] = ['none', 'piece', 'special'];

/** What a table is made from: entries by id. */
export type VocabularyEntry = { readonly bytes: Uint8Array; readonly isSpecial: boolean };

export class Vocabulary {
  readonly size: number;
  readonly #kinds: Uint8Array;
  readonly #offsets: Uint32Array;
  readonly #bytes: Uint8Array;

  private constructor(kinds: Uint8Array, offsets: Uint32Array, bytes: Uint8Array) {
    this.size = kinds.length;
    this.#kinds = kinds;
    this.#offsets = offsets;
    this.#bytes = bytes;
  }

  /** Errors: `invalid_value`. */
  static read(table: Uint8Array): Result<Vocabulary> {
    const buffer = Buffer.from(table.buffer, table.byteOffset, table.byteLength);
    if (buffer.length < HEAD_BYTES || !buffer.subarray(0, MAGIC.length).equals(MAGIC)) return invalid('it does not begin with TDVOCAB1');
    const size = buffer.readUInt32LE(MAGIC.length);
    const offsetsAt = align(HEAD_BYTES + size);
    const start = offsetsAt + (size + 1) * 4;
    if (size > MAX_IDS || buffer.length < start) return invalid('it is cut short');
    const kinds = buffer.subarray(HEAD_BYTES, HEAD_BYTES + size);
    const offsets = Uint32Array.from({ length: size + 1 }, (_, at) => buffer.readUInt32LE(offsetsAt + at * 4));
    const bytes = buffer.subarray(start);
    if (offsets[0] !== 0 || offsets[size] !== bytes.length) return invalid('its pieces do not fill it');
    for (let id = 0; id < size; id++) {
      if ((offsets[id] as number) > (offsets[id + 1] as number)) return invalid(`the piece of id ${id} ends before it begins`);
      if (KINDS[kinds[id] as number] === undefined) return invalid(`id ${id} is of no known kind`);
    }
    return ok(new Vocabulary(kinds, offsets, bytes));
  }

  /** Null for an id that the vocabulary does not have. */
  bytesOf(id: number): Uint8Array | null {
    if (this.kindOf(id) === 'none') return null;
    return this.#bytes.subarray(this.#offsets[id], this.#offsets[id + 1]);
  }

  kindOf(id: number): PieceKind {
    return KINDS[this.#kinds[id] ?? 0] ?? 'none';
  }
}

export function writeVocabulary(entries: ReadonlyMap<number, VocabularyEntry>): Uint8Array {
  let size = 0;
  for (const id of entries.keys()) size = Math.max(size, id + 1);
  if (size > MAX_IDS) throw new RangeError(`a vocabulary has at most ${MAX_IDS} ids`);
  const offsetsAt = align(HEAD_BYTES + size);
  const head = Buffer.alloc(offsetsAt + (size + 1) * 4);
  MAGIC.copy(head);
  head.writeUInt32LE(size, MAGIC.length);
  const pieces: Uint8Array[] = [];
  let end = 0;
  for (let id = 0; id < size; id++) {
    const entry = entries.get(id);
    head.writeUInt32LE(end, offsetsAt + id * 4);
    if (entry === undefined) continue;
    head[HEAD_BYTES + id] = entry.isSpecial ? 2 : 1;
    pieces.push(entry.bytes);
    end += entry.bytes.length;
  }
  head.writeUInt32LE(end, offsetsAt + size * 4);
  return Buffer.concat([head, ...pieces]);
}

export function vocabularyHash(table: Uint8Array): string {
  return createHash('sha256').update(table).digest('hex');
}

function align(at: number): number {
  return Math.ceil(at / 4) * 4;
}

function invalid(problem: string): Result<never> {
  return fail('invalid_value', `this is no vocabulary: ${problem}`);
}
