import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import fc from 'fast-check';
import Fastify from 'fastify';
import { openDirectoryBlobs } from '../../store/blobs/directory-blobs.ts';
import { tokenizerRoutes } from '../routes/tokenizers.ts';
import { joinPieces, utf8State } from './join-pieces.ts';
import { fromTiktoken, fromTokenizerJson } from './tokenizer-files.ts';
import { Vocabulary, vocabularyHash, writeVocabulary, type VocabularyEntry } from './vocabulary.ts';

function vocabularyOf(entries: ReadonlyMap<number, VocabularyEntry>): Vocabulary {
  const read = Vocabulary.read(writeVocabulary(entries));
  assert.ok(read.ok);
  return read.value;
}

/** One token per byte. */
const BYTES = vocabularyOf(new Map(Array.from({ length: 256 }, (_, byte) => [byte, { bytes: Uint8Array.of(byte), isSpecial: false }])));

test('a table gives back the bytes of every id, and nothing for the others', () => {
  const entry = fc.record({ bytes: fc.uint8Array({ maxLength: 6 }), isSpecial: fc.boolean() });
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(fc.nat(200), entry), { selector: ([id]) => id }), (list) => {
      const entries = new Map(list);
      const vocabulary = vocabularyOf(entries);
      for (let id = 0; id < 220; id++) {
        const known = entries.get(id);
        assert.deepEqual(vocabulary.bytesOf(id) === null ? null : [...(vocabulary.bytesOf(id) as Uint8Array)], known === undefined ? null : [...known.bytes]);
        assert.equal(vocabulary.kindOf(id), known === undefined ? 'none' : known.isSpecial ? 'special' : 'piece');
      }
    }),
  );
}); // prettier-ignore

test('a table that is cut or changed is refused or read as another, never beyond its end', () => {
  const table = writeVocabulary(new Map([[1, { bytes: Buffer.from('ab'), isSpecial: false }], [3, { bytes: Buffer.from('c'), isSpecial: true }]])); // prettier-ignore
  for (let length = 0; length < table.length; length++) assert.equal(Vocabulary.read(table.subarray(0, length)).ok, false, String(length));
  fc.assert(
    fc.property(fc.nat(table.length - 1), fc.integer({ min: 0, max: 255 }), (at, byte) => {
      const changed = Uint8Array.from(table);
      changed[at] = byte;
      const read = Vocabulary.read(changed);
      if (read.ok) for (let id = 0; id < 8; id++) read.value.bytesOf(id);
    }),
  );
});

test('joined pieces are the text, whatever the cuts: nothing is lost or replaced', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const ids = [...Buffer.from(text)];
      const joined = joinPieces(ids, BYTES);
      assert.ok(joined.every((piece) => piece.kind === 'text'));
      assert.equal(joined.map((piece) => (piece.kind === 'text' ? piece.text : '')).join(''), Buffer.from(ids).toString());
      assert.deepEqual(joined.flatMap((piece) => piece.ids), ids); // prettier-ignore
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const joined = joinPieces(bytes, BYTES);
      const back = joined.map((piece) => (piece.kind === 'bytes' ? Buffer.from(piece.hex, 'hex') : Buffer.from(piece.kind === 'text' ? piece.text : '')));
      assert.deepEqual(Buffer.concat(back), Buffer.from(bytes));
      assert.deepEqual(joined.flatMap((piece) => [...piece.ids]), [...bytes]);
    }),
  ); // prettier-ignore
});

test('UTF-8 is told as the platform tells it', () => {
  const isWhole = (bytes: Uint8Array): boolean => {
    try {
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
      return true;
    } catch {
      return false;
    }
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 6 }), (bytes) => (utf8State(bytes) === 'whole') === isWhole(bytes))); // prettier-ignore
  for (let first = 0; first < 256; first++)
    for (let second = 0; second < 256; second++) {
      const bytes = Uint8Array.of(first, second, 0x80, 0x80);
      for (const length of [1, 2, 3, 4]) assert.equal(utf8State(bytes.subarray(0, length)) === 'whole', isWhole(bytes.subarray(0, length)));
    }
}); // prettier-ignore

test('byte-level and SentencePiece-like tokenizer.json, and tiktoken ranks', () => {
  const byteLevel = fromTokenizerJson(JSON.stringify({ model: { type: 'BPE', vocab: { hello: 0, 'Ġworld': 1, 'ðŁ': 2, 'Ĵ¥': 3, '<|end|>': 4 } }, decoder: { type: 'ByteLevel' }, added_tokens: [{ id: 4, content: '<|end|>', special: true }, { id: 9, content: '<é>', special: false }] })); // prettier-ignore
  assert.ok(byteLevel.ok);
  const texts = joinPieces([0, 1, 2, 3, 4, 9, 7, 2, 0], vocabularyOf(byteLevel.value));
  assert.deepEqual(texts, [
    { ids: [0], kind: 'text', text: 'hello' },
    { ids: [1], kind: 'text', text: ' world' },
    { ids: [2, 3], kind: 'text', text: '💥' },
    { ids: [4], kind: 'special', text: '<|end|>' },
    { ids: [9], kind: 'text', text: '<é>' },
    { ids: [7], kind: 'unknown' },
    { ids: [2], kind: 'bytes', hex: 'f09f' },
    { ids: [0], kind: 'text', text: 'hello' },
  ]);
  const pieces = fromTokenizerJson(JSON.stringify({ model: { type: 'Unigram', vocab: [['▁the', -1], ['<0xC3>', -2], ['<0xA9>', -3]] }, decoder: { type: 'Sequence', decoders: [{ type: 'Replace' }, { type: 'ByteFallback' }, { type: 'Fuse' }] } })); // prettier-ignore
  assert.ok(pieces.ok);
  assert.deepEqual(joinPieces([0, 1, 2], vocabularyOf(pieces.value)), [{ ids: [0], kind: 'text', text: ' the' }, { ids: [1, 2], kind: 'text', text: 'é' }]); // prettier-ignore
  const ranks = fromTiktoken(`${Buffer.from('a b').toString('base64')} 0\n${Buffer.from([0xff]).toString('base64')} 1\n`);
  assert.ok(ranks.ok);
  assert.deepEqual(joinPieces([0, 1], vocabularyOf(ranks.value)), [{ ids: [0], kind: 'text', text: 'a b' }, { ids: [1], kind: 'bytes', hex: 'ff' }]); // prettier-ignore
  for (const text of ['{', '{}', '{"model":{"vocab":{"a":0}}}', '{"model":{"vocab":{"语":0}},"decoder":{"type":"ByteLevel"}}'])
    assert.equal(fromTokenizerJson(text).ok, false, text);
  for (const text of ['', 'x', '!! 1', 'YQ== 99999999']) assert.equal(fromTiktoken(text).ok, false, text);
});

test('a vocabulary is stored under its own hash only', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tapedeck-vocabularies-'));
  const blobs = await openDirectoryBlobs({ directory, clock: systemClock, random: systemRandom });
  const app = Fastify();
  await app.register(tokenizerRoutes, { blobs });
  try {
    const table = Buffer.from(writeVocabulary(new Map([[5, { bytes: Uint8Array.of(0xff), isSpecial: false }]])));
    const hash = vocabularyHash(table);
    const put = (name: string, payload: Buffer) => app.inject({ method: 'PUT', url: `/v1/tokenizers/${name}`, payload, headers: { 'content-type': 'application/octet-stream' } });
    assert.equal((await put(hash, table)).statusCode, 201);
    assert.equal((await put('0'.repeat(64), table)).json<{ error: { code: string } }>().error.code, 'digest_mismatch');
    const other = Buffer.from('something else');
    assert.equal((await put(vocabularyHash(other), other)).statusCode, 422);
    assert.deepEqual((await app.inject({ url: `/v1/tokenizers/${hash}` })).rawPayload, table);
    const pieces = await app.inject({ url: `/v1/tokenizers/${hash}?ids=5,6` });
    assert.deepEqual(pieces.json(), { hash, pieces: [{ id: 5, kind: 'piece', bytes: '/w==' }, { id: 6, kind: 'none', bytes: null }] });
    assert.equal((await app.inject({ url: `/v1/tokenizers/${'1'.repeat(64)}` })).statusCode, 404);
    assert.equal((await app.inject({ url: '/v1/tokenizers/..%2Fx' })).statusCode, 400);
    // a blob that is no vocabulary is not given out
    const handle = await blobs.put(other, 'text/plain');
    assert.equal((await app.inject({ url: `/v1/tokenizers/${handle.sha256}` })).statusCode, 404);
  } finally {
    await app.close();
    await blobs.close();
    rmSync(directory, { recursive: true, force: true });
  }
}); // prettier-ignore
