import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mediaOf } from './accept-media.ts';

const good: [string, string][] = [
  ['application/json', 'json'],
  ['Application/JSON; charset=UTF-8', 'json'],
  ['application/json;charset="utf-8"', 'json'],
  ['application/vnd.tapedeck.events+json', 'json'],
  ['application/x-ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['application/cbor', 'cbor'],
  ['application/cbor-seq', 'cbor'],
  ['application/vnd.x+cbor', 'cbor'],
];
for (const [header, media] of good) test(`${header} is ${media}`, () => assert.deepEqual(mediaOf(header), { ok: true, value: media }));

const bad = [
  undefined,
  '',
  'text/plain',
  'text/json',
  'application/xml',
  'application/json; charset=latin1',
  'json',
  '+json',
  'application/+json',
  'application/jsonx',
];
for (const header of bad) {
  test(`${String(header)} is refused and the answer says what is served`, () => {
    const result = mediaOf(header);
    assert.ok(!result.ok);
    assert.equal(result.error.code, 'unsupported_media_type');
    assert.match(result.error.message, /application\/cbor|UTF-8/);
  });
}

test('a long header is not echoed whole', () => {
  const result = mediaOf(`text/${'x'.repeat(10_000)}`);
  assert.ok(!result.ok && result.error.message.length < 400);
});
