import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { isTapedeckError } from '../../base/errors.ts';
import { blobHandles, externalize, internalize } from './blob-tags.ts';
import { decodeCbor } from './cbor-decode.ts';
import { encodeEvent } from './cbor-encode.ts';
import { splitCborItems } from './cbor-items.ts';

const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex');
const LIMIT = 100;
const long = 'x'.repeat(LIMIT + 1);
const EVENT = {
  id: 'e',
  [`key ${long}`]: 'short',
  data: { text: long, edge: 'y'.repeat(LIMIT), again: [long, { deep: long }], bytes: new Uint8Array(200), stream: new Float32Array(50), lone: `\ud800${long}` },
}; // prettier-ignore

async function back(slice: Uint8Array, blobs: readonly { sha256: string; content: Uint8Array }[]): Promise<Uint8Array> {
  const store = new Map(blobs.map((b) => [b.sha256, b.content]));
  return internalize(slice, (hash) => Promise.resolve(store.get(hash) as Uint8Array));
}

test('what is over the limit leaves, what is at the limit stays', async () => {
  const slice = encodeEvent(EVENT);
  const out = externalize(slice, LIMIT);
  assert.ok(out !== null);
  const contents = out.blobs.map((b) => [b.mediaType, b.content.length]);
  assert.deepEqual(contents, [['text/plain; charset=utf-8', 101], ['application/octet-stream', 200], ['application/octet-stream', 200]].slice(0, contents.length)); // prettier-ignore
  assert.equal(out.blobs[0]?.sha256, sha256(long));
  assert.deepEqual(blobHandles(out.slice), [
    { sha256: sha256(long), bytes: 101, mediaType: 'text/plain; charset=utf-8' },
    { sha256: sha256(long), bytes: 101, mediaType: 'text/plain; charset=utf-8' },
    { sha256: sha256(long), bytes: 101, mediaType: 'text/plain; charset=utf-8' },
    { sha256: sha256(new Uint8Array(200)), bytes: 200, mediaType: 'application/octet-stream' },
    { sha256: sha256(new Uint8Array(200)), bytes: 200, mediaType: 'application/octet-stream', dtype: 'f32' },
  ]);
  assert.ok(out.slice.length < slice.length);
  assert.deepEqual(Buffer.from(await back(out.slice, out.blobs)), Buffer.from(slice));
});

test('equal contents are one blob, asked for once', async () => {
  const out = externalize(encodeEvent(EVENT), LIMIT);
  assert.ok(out !== null);
  assert.equal(new Set(out.blobs.map((b) => b.sha256)).size, out.blobs.length);
  const asked: string[] = [];
  await internalize(out.slice, (hash) => {
    asked.push(hash);
    return Promise.resolve((out.blobs.find((b) => b.sha256 === hash) as { content: Uint8Array }).content);
  });
  assert.equal(asked.length, out.blobs.length);
});

test('longer heads, indefinite strings and big-endian arrays come back as they were', async () => {
  for (const hex of [
    `a1617a7900c8${'61'.repeat(200)}`,
    `a1617a7b00000000000000c8${'61'.repeat(200)}`,
    `bf617a7f78c8${'61'.repeat(200)}6162ffff`,
    `a1617ad84258c8${'00'.repeat(200)}`,
    `a1617ad900465f58c8${'00'.repeat(200)}44${'01'.repeat(4)}ff`,
  ]) {
    const slice = Buffer.from(hex, 'hex');
    const out = externalize(slice, LIMIT);
    assert.ok(out !== null);
    assert.ok(splitCborItems(out.slice).ok);
    assert.deepEqual(Buffer.from(await back(out.slice, out.blobs)), slice);
  }
});

test('nothing long: null out, the same slice in', async () => {
  const slice = encodeEvent({ a: 'b'.repeat(LIMIT), n: Array.from({ length: 1000 }, () => 1) });
  assert.equal(externalize(slice, LIMIT), null);
  assert.deepEqual(blobHandles(slice), []);
  assert.equal(await internalize(slice, () => Promise.reject(new Error('not asked'))), slice);
});

test('a slice with values outside cannot be decoded; a wrong blob is found', async () => {
  const out = externalize(encodeEvent(EVENT), LIMIT);
  assert.ok(out !== null);
  assert.throws(() => decodeCbor(out.slice), (e) => isTapedeckError(e, 'invalid_cbor')); // prettier-ignore
  await assert.rejects(internalize(out.slice, () => Promise.resolve(new Uint8Array(3))), (e) => isTapedeckError(e, 'blob_corrupt')); // prettier-ignore
  assert.throws(() => blobHandles(Buffer.from('da74617065a161616162', 'hex')), (e) => isTapedeckError(e, 'invalid_cbor')); // prettier-ignore
});

test('a data URL or base64 leaves earlier than a text that people read', async () => {
  const base64 = Buffer.alloc(60, 250).toString('base64');
  const event = {
    data: {
      url: `data:image/png;base64,${'#'.repeat(60)}`,
      bare: base64,
      prose: 'word '.repeat(16),
      short: base64.slice(0, 50),
      bytes: new Uint8Array(80),
    },
  };
  const slice = encodeEvent(event);
  assert.equal(externalize(slice, 1000), null);
  const out = externalize(slice, 1000, 50);
  assert.ok(out !== null);
  assert.deepEqual(out.blobs.map(({ content }) => Buffer.from(content).toString()), [event.data.url, base64]); // prettier-ignore
  assert.deepEqual(Buffer.from(await back(out.slice, out.blobs)), Buffer.from(slice));
});
