import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteWriter } from '../../base/byte-writer.ts';
import { contentHash } from '../content-hash.ts';
import { PackedArray } from '../packed-array.ts';
import { externalize, internalize } from './blob-tags.ts';
import { decodeCbor } from './cbor-decode.ts';
import { encodeCbor } from './cbor-encode.ts';
import { splitCborItems } from './cbor-items.ts';
import { cborToJson, toJson } from './cbor-to-json.ts';
import { jsonToCbor } from './json-to-cbor.ts';
import { anyMap, anyValue, encodeVariously, jsonText } from './values.arbitrary.ts';

function encoded(value: unknown): Buffer {
  const out = new ByteWriter(16);
  encodeCbor(value, out);
  return out.take();
}

function transcoded(json: string, streams = false): Buffer {
  const bytes = Buffer.from(json);
  const out = new ByteWriter(16);
  jsonToCbor(bytes, 0, bytes.length, out, { streams });
  return out.take();
}

function jsonOf(cbor: Uint8Array, streams = false): string {
  const out = new ByteWriter(16);
  cborToJson(cbor, 0, cbor.length, out, { streams });
  return out.take().toString();
}

test('a value survives CBOR', () => {
  fc.assert(fc.property(anyValue, (value) => assert.deepStrictEqual(decodeCbor(encoded(value)), value)));
});

test('every legal encoding of a value decodes to it', () => {
  fc.assert(fc.property(anyValue, fc.nat(), (value, seed) => assert.deepStrictEqual(sortedKeys(decodeCbor(encodeVariously(value, seed))), sortedKeys(value)))); // prettier-ignore
});

test('a value survives JSON, by either writer', () => {
  fc.assert(
    fc.property(anyValue, (value) => {
      assert.deepStrictEqual(decodeCbor(transcoded(toJson(value))), value);
      assert.deepStrictEqual(decodeCbor(transcoded(jsonOf(encoded(value)))), value);
    }),
  );
});

test('JSON text comes back letter for letter, keys in their order', () => {
  fc.assert(fc.property(jsonText, (json) => assert.equal(jsonOf(transcoded(json)), json)));
});

test('an event survives JSON with its streams as base64', () => {
  const stream = fc.oneof(fc.constant(null), fc.float32Array({ maxLength: 5 }).map((a) => PackedArray.of(a)), fc.uint32Array({ maxLength: 5 }).map((a) => PackedArray.of(a))); // prettier-ignore
  fc.assert(
    fc.property(stream, stream, stream, anyMap, (ids, logprobs, entropies, message) => {
      const tokens = { ids, mask: ids, logprobs, lossWeights: { rl: logprobs, ce: ids } };
      const value = { data: { tokens, logprobs, streams: { entropies }, message } };
      assert.deepStrictEqual(decodeCbor(transcoded(jsonOf(encoded(value), true), true)), value);
    }),
  );
});

test('the ranges of a batch are its events', () => {
  fc.assert(
    fc.property(fc.array(anyMap, { maxLength: 5 }), fc.nat(), (events, seed) => {
      const split = splitCborItems(encodeVariously(events, seed));
      assert.ok(split.ok);
      const body = encodeVariously(events, seed);
      const decoded = split.value.map(({ start, end }) => decodeCbor(body, start, end));
      assert.deepStrictEqual(decoded.map(sortedKeys), events.map(sortedKeys));
    }),
  );
});

test('equal content hashes equal in every encoding and key order, other content does not', () => {
  fc.assert(
    fc.property(anyMap, anyMap, fc.nat(), fc.nat(), (data, other, a, b) => {
      const event = { id: 'x', time: 5, data };
      const hash = contentHash(encodeVariously(event, a));
      assert.deepStrictEqual(contentHash(encodeVariously(event, b)), hash);
      assert.deepStrictEqual(contentHash(encoded(event)), hash);
      const moved = contentHash(encoded({ ...event, id: 'y' }));
      assert.deepStrictEqual(moved.data, hash.data);
      assert.notDeepStrictEqual(moved.event, hash.event);
      const changed = contentHash(encodeVariously({ ...event, data: other }, a));
      const equal = Buffer.compare(encoded(sortedKeys(data)), encoded(sortedKeys(other))) === 0;
      assert.equal(changed.data === hash.data, equal);
      assert.equal(changed.event === hash.event, equal);
    }),
  );
});

test('large values leave an event and come back byte for byte', async () => {
  await fc.assert(
    fc.asyncProperty(anyMap, fc.nat(), fc.nat(60), async (event, seed, limit) => {
      const slice = encodeVariously(event, seed);
      const out = externalize(slice, limit);
      if (out === null) return;
      const blobs = new Map(out.blobs.map((b) => [b.sha256, b.content]));
      const back = await internalize(out.slice, (sha256) => Promise.resolve(blobs.get(sha256) as Uint8Array));
      assert.ok(Buffer.from(back).equals(slice));
    }),
  );
});

/** The value with the keys of all maps sorted, since an encoding may permute them. */
function sortedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortedKeys);
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).map(([k, v]) => [k, sortedKeys(v)] as const);
  const map = {};
  for (const [k, v] of entries.toSorted(([a], [b]) => (a < b ? -1 : 1))) Object.defineProperty(map, k, { value: v, enumerable: true });
  return map;
}
