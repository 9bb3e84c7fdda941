/** A tiny Hugging Face tokenizer folder: one token per byte, some words, and the markers. Clients that render prompts themselves (verifiers) load it offline. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MARKER_TEXT } from './tokenizer.ts';

/** Merged from pairs, so that a text has several tokenisations, as with real vocabularies. */
const WORDS = ['assistant', 'user', 'system', 'answer', 'tool', ' is', ' the', ' and', ' What', ' inside', ' tags'];
const TEMPLATE =
  '{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}';

/** Writes `tokenizer.json` and `tokenizer_config.json`; answers the size of the vocabulary. */
export function writeByteTokenizer(folder: string): number {
  const vocab = new Map<string, number>();
  const add = (token: string): void => void (vocab.has(token) || vocab.set(token, vocab.size));
  const characters = characterOfByte();
  for (const character of characters) add(character);
  const merges: string[] = [];
  for (const word of WORDS) {
    const parts = Array.from(new TextEncoder().encode(word), (byte) => characters[byte] as string);
    for (let length = 1; length < parts.length; length++) {
      const pair = `${parts.slice(0, length).join('')} ${parts[length] ?? ''}`;
      if (!merges.includes(pair)) merges.push(pair);
      add(pair.replace(' ', ''));
    }
  }
  const markers = ['<|endoftext|>', ...Object.values(MARKER_TEXT)].map((content, i) => ({
    id: vocab.size + i,
    content,
    special: content.startsWith('<|'),
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  }));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const bpe = { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false };
  const tokenizer = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: markers,
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: { ...bpe, vocab: Object.fromEntries(vocab), merges },
  };
  const config = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: MARKER_TEXT.imEnd,
    pad_token: '<|endoftext|>',
    model_max_length: 8192,
    clean_up_tokenization_spaces: false,
    chat_template: TEMPLATE,
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(config));
  return vocab.size + markers.length;
}

/** Byte-level BPE writes each byte as one printable character: itself where it is printable, else one from U+0100 on. */
export function characterOfByte(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCodePoint(printable ? byte : next++);
  });
}
