/** A tokenizer from a Hugging Face folder (`tokenizer.json`, byte-level BPE with ChatML markers), for clients that render prompts with the same one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { characterOfByte } from './byte-tokenizer.ts';
import { MARKER_TEXT, remembered, type Markers, type Tokenizer } from './tokenizer.ts';

/** Throws when the folder has no such file or the vocabulary lacks `<|im_start|>` or `<|im_end|>`. A marker in a text counts as the marker, as in engines. */
export function hfTokenizer(folder: string): Tokenizer {
  const read = (file: string): object => JSON.parse(readFileSync(join(folder, file), 'utf8')) as object;
  const inner = new HuggingFaceTokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
  const added = inner.get_added_tokens_decoder();
  const find = (name: keyof Markers): number => {
    const id = inner.token_to_id(MARKER_TEXT[name]);
    if (id !== undefined) return id;
    if (name === 'imStart' || name === 'imEnd') throw new Error(`the vocabulary of ${folder} has no ${MARKER_TEXT[name]}`);
    return find('imEnd');
  };
  const bytes = new Map(characterOfByte().map((character, byte) => [character, byte]));
  const encoder = new TextEncoder();
  return {
    name: folder,
    textIds: inner.get_vocab(false).size,
    markers: Object.fromEntries(Object.keys(MARKER_TEXT).map((name) => [name, find(name as keyof Markers)])) as Markers,
    encode: remembered((text) => inner.encode(text, { add_special_tokens: false }).ids),
    bytesOf: (id) => {
      const token = inner.id_to_token(id) as string | undefined;
      if (token === undefined) throw new RangeError(`token id ${id} is not in the vocabulary`);
      return added.has(id) ? encoder.encode(token) : Uint8Array.from(Array.from(token, (character) => bytes.get(character) ?? 0x3f));
    },
  };
}
