import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteWriter } from '../../base/byte-writer.ts';
import { shortestFloat32 } from './float32-text.ts';
import { sameJson } from './json-value.ts';
import { floatText, writeJson } from './json-text.ts';
import { microsOf, microsOfIso, secondsOf } from './micros.ts';
import { parsed } from './sample-records.ts';

test('the shortest decimal of a float32 names it, and no shorter one does', () => {
  for (const text of [-0.2869, 0.1, 1e-7, 3.4e38, 16_777_216, 0, -0])
    assert.ok(Object.is(shortestFloat32(Math.fround(text)), text), String(text));
  assert.equal(shortestFloat32(Math.fround(1 / 3)), 0.33333334);
  fc.assert(
    fc.property(fc.float(), (f) => {
      const decimal = shortestFloat32(f);
      assert.ok(Object.is(Math.fround(decimal), f));
    }),
  );
});

test('seconds: 0.0, negative, NaN and far away are no time; microseconds come back', () => {
  for (const seconds of [0, -1, NaN, Infinity, 1e12, null]) assert.equal(microsOf(seconds), null);
  assert.equal(microsOf(1762214401.605592), 1_762_214_401_605_592);
  assert.equal(secondsOf(microsOf(1762214401.605592)), 1762214401.605592);
  assert.equal(secondsOf(null), 0);
});

test('ISO times need a zone', () => {
  assert.equal(microsOfIso('2026-05-15T14:26:16.821430+00:00'), 1_778_855_176_821_430);
  assert.equal(microsOfIso('2026-05-15T16:26:16.82143+02:00'), 1_778_855_176_821_430);
  assert.equal(microsOfIso('1970-01-01T00:00:01Z'), 1_000_000);
  for (const text of ['2026-05-15 14:12:20.609000', '2026-05-15', 'yesterday', '2026-13-45T00:00:00Z', '1960-01-01T00:00:00Z'])
    assert.equal(microsOfIso(text), null, text);
});

test('floats keep their point', () => {
  for (const [value, text] of [
    [600, '600.0'],
    [-0, '-0.0'],
    [1e21, '1e+21'],
    [1e20, '100000000000000000000.0'],
    [-3, '-3.0'],
  ] as const)
    assert.equal(floatText(value), text);
});

test('any document survives reading and writing, exactly', () => {
  const texts = ['{"a":1,"b":1.0,"c":1e5,"d":-0.0,"e":123456789012345678901234567890,"f":[NaN,Infinity,-Infinity],"__proto__":{"x":null},"g":"\\ud800\\u0000\\u2028"}', '{"$float":"NaN","h":{"$float":"NaN"},"i":{"$bytes":"AA=="}}']; // prettier-ignore
  for (const text of texts) {
    const out = new ByteWriter();
    writeJson(parsed(text), out);
    assert.ok(sameJson(parsed(out.view().toString()), parsed(text)), out.view().toString());
  }
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const out = new ByteWriter();
      writeJson(parsed(JSON.stringify(value)), out);
      assert.deepEqual(JSON.parse(out.view().toString()), JSON.parse(JSON.stringify(value)));
    }),
  );
});
