/** What the engine needs of a tokenizer, and the built-in one: the real o200k vocabulary with the ChatML markers of the Qwen family. */
import bpe from 'gpt-tokenizer/bpeRanks/o200k_base';
import o200k from 'gpt-tokenizer/encoding/o200k_base';

/** Ids of the markers a chat template is made of. */
export type Markers = {
  readonly imStart: number;
  readonly imEnd: number;
  readonly think: number;
  readonly thinkEnd: number;
  readonly toolCall: number;
  readonly toolCallEnd: number;
  readonly toolResponse: number;
  readonly toolResponseEnd: number;
  readonly image: number;
};

export type Tokenizer = {
  readonly name: string;
  /** Ids of ordinary text are smaller than this. */
  readonly textIds: number;
  readonly markers: Markers;
  /** Ids of ordinary text: a marker written out in `text` stays text. */
  encode(text: string): readonly number[];
  /** The bytes of one id (part of a character, for some); a marker gives its name. Throws `RangeError` for an id that does not exist. */
  bytesOf(id: number): Uint8Array;
};

export const MARKER_TEXT: Readonly<Record<keyof Markers, string>> = {
  imStart: '<|im_start|>',
  imEnd: '<|im_end|>',
  think: '<think>',
  thinkEnd: '</think>',
  toolCall: '<tool_call>',
  toolCallEnd: '</tool_call>',
  toolResponse: '<tool_response>',
  toolResponseEnd: '</tool_response>',
  image: '<|image_pad|>',
};

/** Above the vocabulary and its own special ids, where o200k has nothing. */
const MARKERS: Markers = {
  imStart: 200_264,
  imEnd: 200_265,
  think: 200_270,
  thinkEnd: 200_271,
  toolCall: 200_272,
  toolCallEnd: 200_273,
  toolResponse: 200_274,
  toolResponseEnd: 200_275,
  image: 200_276,
};

/** The merge search of one unbroken word grows with its square, so that hostile input is cut before it. */
const LONGEST_PIECE = 16_384;
const NO_SPECIALS = { disallowedSpecial: new Set<string>() };

export function o200kTokenizer(): Tokenizer {
  const encoder = new TextEncoder();
  const markerBytes = new Map<number, Uint8Array>(
    Object.entries(MARKERS).map(([name, id]) => [id, encoder.encode(MARKER_TEXT[name as keyof Markers])]),
  );
  return {
    name: 'o200k_base',
    textIds: bpe.length,
    markers: MARKERS,
    encode: remembered((text) => o200k.encode(text, NO_SPECIALS)),
    bytesOf: (id) => {
      const marker = markerBytes.get(id);
      if (marker !== undefined) return marker;
      const entry = bpe[id];
      if (entry === undefined) throw new RangeError(`token id ${id} is not in the vocabulary`);
      return typeof entry === 'string' ? encoder.encode(entry) : Uint8Array.from(entry);
    },
  };
}

/** The text of `ids`; bytes that are no UTF-8 become U+FFFD, as engines do. */
export function decode(tokenizer: Tokenizer, ids: Iterable<number>): string {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let text = '';
  for (const id of ids) text += decoder.decode(tokenizer.bytesOf(id), { stream: true });
  return text + decoder.decode();
}

/** Remembers short texts (a history is rendered again each turn), at most 8,192 of them. */
export function remembered(encode: (text: string) => readonly number[]): (text: string) => readonly number[] {
  const known = new Map<string, readonly number[]>();
  return (text) => {
    if (text.length > 4096) return pieces(text).flatMap((piece) => encode(piece));
    const before = known.get(text);
    if (before !== undefined) return before;
    const ids = encode(text);
    if (known.size >= 8192) known.delete(known.keys().next().value as string);
    known.set(text, ids);
    return ids;
  };
}

function pieces(text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  while (from < text.length) {
    let to = Math.min(text.length, from + LONGEST_PIECE);
    const last = text.charCodeAt(to - 1);
    if (to < text.length && last >= 0xd800 && last < 0xdc00) to--; // a surrogate pair stays whole
    parts.push(text.slice(from, to));
    from = to;
  }
  return parts;
}
