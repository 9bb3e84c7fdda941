/** Vocabularies out of the files that tokenizers come in: `tokenizer.json` of Hugging Face, and the ranks of tiktoken. */
import { z } from 'zod';
import { fail, ok, type Result } from '../../base/result.ts';
import type { VocabularyEntry } from './vocabulary.ts';

export type Entries = ReadonlyMap<number, VocabularyEntry>;

const id = z
  .int()
  .min(0)
  .max(4 * 1024 * 1024 - 1);
const decoder: z.ZodType<Decoder> = z.lazy(() =>
  z.looseObject({
    type: z.string(),
    decoders: z.array(decoder).optional(),
    pattern: z.unknown().optional(),
    content: z.unknown().optional(),
  }),
);
type Decoder = { type: string; decoders?: Decoder[] | undefined; pattern?: unknown; content?: unknown };
const file = z.looseObject({
  model: z.looseObject({ type: z.string().optional(), vocab: z.union([z.record(z.string(), id), z.array(z.tuple([z.string(), z.number()]))]) }),
  decoder: decoder.nullish(),
  added_tokens: z.array(z.looseObject({ id, content: z.string(), special: z.boolean().optional() })).default([]),
}); // prettier-ignore

/** The bytes that byte-level pieces stand for: printable ones are themselves, the others are letters from U+0100 on (as in GPT-2). */
const BYTE_OF_LETTER: ReadonlyMap<string, number> = (() => {
  const printable = (byte: number): boolean => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const map = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) map.set(String.fromCodePoint(printable(byte) ? byte : next++), byte);
  return map;
})();
const BYTE_PIECE = /^<0x([0-9A-Fa-f]{2})>$/;
const SPACE = '\u2581';

/**
 * Understands byte-level BPE (GPT-2 and most since), and SentencePiece-like models that write spaces as ▁ and single bytes as <0xNN>. Errors: `invalid_value` names what is not understood; nothing is
 * guessed.
 */
export function fromTokenizerJson(text: string): Result<Entries> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return fail('invalid_value', `this is no JSON: ${(error as Error).message}`);
  }
  const parsed = file.safeParse(json);
  if (!parsed.success) return fail('invalid_value', `this is no tokenizer.json: ${parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ')}`);
  const { model, added_tokens: added } = parsed.data;
  const types = typesOf(parsed.data.decoder);
  const isByteLevel = types.has('ByteLevel');
  if (!isByteLevel && !types.has('Metaspace') && !types.has('ByteFallback') && !types.has('Replace'))
    return fail('invalid_value', `the decoder ${[...types].join(', ') || 'none'} is not understood: it must be ByteLevel, or Metaspace, Replace and ByteFallback`);
  const entries = new Map<number, VocabularyEntry>();
  const pieces = Array.isArray(model.vocab) ? model.vocab.map(([piece], at) => [piece, at] as const) : Object.entries(model.vocab);
  const special = new Set(added.map((token) => token.content));
  for (const [piece, at] of pieces) {
    if (special.has(piece)) continue; // below, as the text it is
    const bytes = isByteLevel ? byteLevel(piece) : sentencePiece(piece);
    if (bytes === null) return fail('invalid_value', `the piece ${JSON.stringify(piece)} of id ${at} is not byte-level`);
    entries.set(at, { bytes, isSpecial: false });
  }
  for (const token of added) entries.set(token.id, { bytes: Buffer.from(token.content), isSpecial: token.special ?? true });
  return ok(entries);
} // prettier-ignore

function typesOf(given: Decoder | null | undefined): Set<string> {
  if (given === null || given === undefined) return new Set();
  return new Set([...(given.type === 'Sequence' ? [] : [given.type]), ...(given.decoders ?? []).flatMap((each) => [...typesOf(each)])]);
}

function byteLevel(piece: string): Uint8Array | null {
  const bytes: number[] = [];
  for (const letter of piece) {
    const byte = BYTE_OF_LETTER.get(letter);
    if (byte === undefined) return null;
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

function sentencePiece(piece: string): Uint8Array {
  const byte = BYTE_PIECE.exec(piece)?.[1];
  return byte === undefined ? Buffer.from(piece.replaceAll(SPACE, ' ')) : Uint8Array.of(Number.parseInt(byte, 16));
}

/** Lines of `<base64 of the bytes> <rank>`, as tiktoken has them; its special tokens are code and not in the file. */
export function fromTiktoken(text: string): Result<Entries> {
  const entries = new Map<number, VocabularyEntry>();
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const match = /^([A-Za-z0-9+/]*={0,2}) (\d{1,7})\r?$/.exec(line);
    const rank = match === null ? undefined : id.safeParse(Number(match[2]));
    if (match === null || rank?.success !== true) return fail('invalid_value', `line ${at + 1} is not "<base64> <rank>"`);
    entries.set(rank.data, { bytes: Buffer.from(match[1] as string, 'base64'), isSpecial: false });
  }
  return entries.size === 0 ? fail('invalid_value', 'the file has no ranks') : ok(entries);
}
