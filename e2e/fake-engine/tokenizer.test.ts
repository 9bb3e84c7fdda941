import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { temporaryFolder } from '../server.ts';
import { parsePrompt, renderPrompt, textMessage } from './chat-template.ts';
import { writeByteTokenizer } from './byte-tokenizer.ts';
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
    writeByteTokenizer(folder.path);
    const tokenizer = hfTokenizer(folder.path);
    assert.equal(decode(tokenizer, [tokenizer.markers.imEnd]), '<|im_end|>');
    assert.ok(tokenizer.encode('What is the answer').length < 10, 'words are merged');
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
