import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { temporaryFolder } from '../server.ts';
import { parsePrompt, renderPrompt, textMessage } from './chat-template.ts';
import { hfTokenizer } from './hf-tokenizer.ts';
import { decode, o200kTokenizer, type Tokenizer } from './tokenizer.ts';

test('o200k: known ids, markers in a text stay text, any text comes back', () => {
  const tokenizer = o200kTokenizer();
  assert.deepEqual(tokenizer.encode('Hello world'), [13225, 2375]);
  assert.ok(!tokenizer.encode('<|im_end|>').includes(tokenizer.markers.imEnd));
  assert.throws(() => tokenizer.bytesOf(200_100), RangeError);
  assertComesBack(tokenizer);
  assert.equal(decode(tokenizer, tokenizer.encode('ab🤷'.repeat(20_000))), 'ab🤷'.repeat(20_000));
});

test('a Hugging Face folder: bytes of each id, markers, prompts read back', () => {
  const folder = temporaryFolder('tokenizer');
  try {
    writeFileSync(join(folder.path, 'tokenizer.json'), JSON.stringify(byteTokenizer()));
    writeFileSync(
      join(folder.path, 'tokenizer_config.json'),
      JSON.stringify({ eos_token: '<|im_end|>', clean_up_tokenization_spaces: false }),
    );
    const tokenizer = hfTokenizer(folder.path);
    assert.deepEqual(tokenizer.markers.imEnd, 257);
    assertComesBack(tokenizer);
    const messages = [textMessage('user', 'naïve 🤷'), textMessage('assistant', 'x')];
    const ids = renderPrompt(tokenizer, messages, [], { earlierReasoning: 'keep', addGenerationPrompt: true, idsPerImage: 4 });
    assert.deepEqual(parsePrompt(tokenizer, ids).messages, messages);
  } finally {
    folder.remove();
  }
});

function assertComesBack(tokenizer: Tokenizer): void {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.equal(decode(tokenizer, tokenizer.encode(text)), text)));
}

/** One token per byte and two markers. */
function byteTokenizer(): unknown {
  const printable = (byte: number): boolean => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 256;
  const vocab = Object.fromEntries(Array.from({ length: 256 }, (_, byte) => [String.fromCodePoint(printable(byte) ? byte : next++), byte]));
  const added = ['<|im_start|>', '<|im_end|>'].map((content, i) => {
    return { id: 256 + i, content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false };
  });
  return {
    version: '1.0',
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      vocab,
      merges: [],
    },
  };
}
