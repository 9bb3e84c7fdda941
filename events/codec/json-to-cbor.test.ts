import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteWriter } from '../../base/byte-writer.ts';
import { isTapedeckError, type ErrorCode } from '../../base/errors.ts';
import { PackedArray } from '../packed-array.ts';
import { decodeCbor } from './cbor-decode.ts';
import { cborToJson } from './cbor-to-json.ts';
import { splitJsonItems, splitNdjson } from './json-items.ts';
import { jsonToCbor } from './json-to-cbor.ts';
import { jsonText, mapOf } from './values.arbitrary.ts';

const DIGITS = Array.from({ length: 10 }, (_, i) => String(i));

type Options = { streams?: boolean; foreign?: boolean };

function read(json: string | Buffer, options: Options = { streams: false }): unknown {
  const bytes = Buffer.from(json);
  const out = new ByteWriter(16);
  jsonToCbor(bytes, 0, bytes.length, out, options);
  return decodeCbor(out.take());
}

function again(json: string): string {
  const bytes = Buffer.from(json);
  const cbor = new ByteWriter(16);
  jsonToCbor(bytes, 0, bytes.length, cbor);
  const text = new ByteWriter(16);
  cborToJson(cbor.view(), 0, cbor.length, text);
  return text.take().toString();
}

const refuses = (json: string | Buffer, code: ErrorCode, options?: Options): void =>
  assert.throws(() => read(json, options), (e) => isTapedeckError(e, code) && typeof e.details['at'] === 'number', JSON.stringify(json.toString())); // prettier-ignore

/** What JSON.parse would have made of it: big integers as doubles. */
function rounded(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(rounded);
  if (typeof value !== 'object' || value === null) return value;
  return mapOf(Object.entries(value).map(([k, v]) => [k, rounded(v)] as const));
}

test('agrees with JSON.parse on plain JSON', () => {
  const spaced = fc.json({ noUnicodeString: false }).map((s) => JSON.stringify(JSON.parse(s), null, 1));
  const seen = fc.oneof(fc.json(), spaced);
  fc.assert(
    fc.property(seen, (json) => assert.deepEqual(rounded(read(json)), JSON.parse(json))),
    { numRuns: 300 },
  );
});

test('doubles are those of JSON.parse, for any spelling', () => {
  const digits = fc.string({ unit: fc.constantFrom(...DIGITS), minLength: 1, maxLength: 25 }).map((d) => d.replace(/^0+(?=\d)/, ''));
  const spelling = fc
    .tuple(
      fc.constantFrom('', '-'),
      digits,
      fc.option(fc.string({ unit: fc.constantFrom(...DIGITS), minLength: 1, maxLength: 25 })),
      fc.option(fc.integer({ min: -330, max: 290 })),
    )
    .map(
      ([sign, whole, fraction, exponent]) =>
        `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? (fraction === null ? '.0' : '') : `e${exponent}`}`,
    );
  const random = fc.oneof(
    spelling,
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => (Number.isInteger(x) ? x.toExponential() : String(x))),
  );
  fc.assert(
    fc.property(random, (text) => {
      const want: unknown = JSON.parse(text);
      if (Number.isFinite(want)) assert.ok(Object.is(read(text), want), text);
      else refuses(text, 'number_out_of_range');
    }),
    { numRuns: 3000 },
  );
});

test('float32 streams round the double, and only once more', () => {
  const near = fc.tuple(fc.float({ noNaN: true, noDefaultInfinity: true }), fc.integer({ min: -3, max: 3 })).map(([x, steps]) => {
    // The exact midpoint of two neighbouring floats, and doubles beside it: where a careless reader errs.
    const bits = new DataView(new ArrayBuffer(8));
    bits.setFloat32(0, x);
    bits.setUint32(0, bits.getUint32(0) + 1);
    const middle = (x + bits.getFloat32(0)) / 2;
    bits.setFloat64(0, middle);
    bits.setBigInt64(0, bits.getBigInt64(0) + BigInt(steps));
    return bits.getFloat64(0);
  });
  const number = fc.oneof(near, fc.double({ min: -1e38, max: 1e38, noNaN: true }), fc.float({ noNaN: true, noDefaultInfinity: true }));
  const text = fc.tuple(number, fc.integer({ min: 1, max: 30 })).map(([x, digits]) => (digits > 21 ? String(x) : x.toPrecision(digits)));
  fc.assert(
    fc.property(fc.array(text.filter((t) => Number.isFinite(Math.fround(Number(t)))), { maxLength: 20 }), (texts) => {
      const { data } = read(`{"data":{"logprobs":[${texts.join(', ')}]}}`, {}) as { data: { logprobs: PackedArray<'f32'> } };
      assert.deepStrictEqual([...data.logprobs.typed()], texts.map((t) => Math.fround(Number(t))));
    }),
    { numRuns: 1000 },
  );
}); // prettier-ignore

test('integers are exact, and -0 is not 0', () => {
  assert.deepStrictEqual(read('[9007199254740991,9007199254740992,-9007199254740993,18446744073709551615,18446744073709551616]'), [2 ** 53 - 1, 2n ** 53n, -(2n ** 53n) - 1n, 2n ** 64n - 1n, 2n ** 64n]); // prettier-ignore
  assert.deepStrictEqual(read('[0,-0,-0.0,0.0,-0e5]'), [0, -0, -0, 0, -0]);
  assert.equal(read('1'.repeat(2000)), BigInt('1'.repeat(2000)));
  refuses('1'.repeat(3000), 'number_out_of_range');
  refuses(`-${'9'.repeat(2467)}`, 'number_out_of_range');
});

test('strings: escapes, pairs, lone surrogates, NUL', () => {
  assert.equal(read('"\\u0041\\n\\/\\"\\\\\\b\\f\\r\\t\\u00e9\\u20ac\\ud83d\\ude00x"'), 'A\n/"\\\b\f\r\té€😀x');
  assert.equal(read('"a\\ud800b"'), 'a\ud800b');
  assert.equal(read('"\\ude00\\ud83d"'), '\ude00\ud83d');
  assert.equal(read('"\\ud83d\\u0041"'), '\ud83dA');
  assert.equal(read('"\\ud83d\\ud83d\\ude00"'), '\ud83d😀');
  assert.equal(read('"\\u0000"'), '\0');
  assert.equal(read(`"${'y'.repeat(70_000)}\\n"`), `${'y'.repeat(70_000)}\n`);
  assert.deepStrictEqual(read('{"\\ud800":1,"\\u0061":2}'), { '\ud800': 1, a: 2 });
});

test('what is no JSON is refused, with its place', () => {
  for (const bad of ['', ' ', '{', '[', '"', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{a:1}', "{'a':1}", '[1,]', '[,1]', '[1 2]', '01', '-', '-01', '1.', '.5', '1e', '1e+', '+1', 'tru', 'nul', 'NaN', 'Infinity', '-Infinity', 'undefined', '1 2', '{} {}', '"\\x"', '"\\u12"', '"\\u12g4"', '"a\nb"', '"\u0001"', '//', '[1]]', '\u00a01', '\ufeff1', '{"a":1 "b":2}', '{1:2}', '["a]']) {
    refuses(bad, 'invalid_json');
  } // prettier-ignore
  refuses('{"a":1,"b":{"c":2},"a":3}', 'duplicate_key');
  refuses('{"a":1,"\\u0061":3}', 'duplicate_key');
  refuses(`{${Array.from({ length: 40 }, (_, i) => `"k${i}":{"k${i}":1}`).join(',')},"k7":0}`, 'duplicate_key');
  refuses('['.repeat(257), 'too_deep');
  refuses('{"a":'.repeat(100_000), 'too_deep');
  refuses('1e400', 'number_out_of_range');
  refuses('-1e309', 'number_out_of_range');
  refuses(Buffer.from([0x22, 0xc3, 0x28, 0x22]), 'invalid_utf8');
  refuses(Buffer.from([0x22, 0x61, 0xed, 0xa0, 0x80, 0x22]), 'invalid_utf8');
  assert.throws(() => read(Buffer.from([0x22, 0x61, 0xc3, 0xa9, 0xff, 0x22])), (e) => isTapedeckError(e) && e.details['at'] === 4); // prettier-ignore
  assert.doesNotThrow(() => read(`${'['.repeat(256)}${']'.repeat(256)}`));
});

test('after an error nothing is left in the output', () => {
  const out = new ByteWriter(16);
  out.byte(7);
  const bad = Buffer.from('{"a":[1,2,{"b":tru');
  assert.throws(() => jsonToCbor(bad, 0, bad.length, out));
  assert.deepEqual([...out.view()], [7]);
});

test('only the given range is read', () => {
  const body = Buffer.from('[{"a":12},{"b":"x"}]');
  const out = new ByteWriter(16);
  jsonToCbor(body, 1, 9, out);
  assert.deepStrictEqual(decodeCbor(out.take()), { a: 12 });
  for (const end of [2, 5, 6, 8]) assert.throws(() => jsonToCbor(body, 1, end, out), (e) => isTapedeckError(e, 'invalid_json')); // prettier-ignore
  const split = Buffer.from('12345');
  jsonToCbor(split, 0, 3, out);
  assert.equal(decodeCbor(out.take()), 123);
  const text = Buffer.from('"abc"');
  assert.throws(() => jsonToCbor(text, 0, 4, out), (e) => isTapedeckError(e, 'invalid_json')); // prettier-ignore
});

test('$float, $bytes and $array stand for what JSON lacks; one more $ escapes them', () => {
  assert.deepStrictEqual(read('[{"$float":"NaN"},{"$float":"Infinity"},{"$float":"-Infinity"}]'), [NaN, Infinity, -Infinity]);
  assert.deepStrictEqual(read('{"$bytes":"AQID\\/w=="}'), new Uint8Array([1, 2, 3, 255]));
  assert.deepStrictEqual(read('{"$array":{"dtype":"i16","data":"AQD//w=="}}'), new PackedArray('i16', new Uint8Array([1, 0, 255, 255])));
  assert.deepStrictEqual(read('[{"$$float":"NaN"},{"$$$bytes":1},{"$float":"NaN","b":1},{"$other":1},{"$":1}]'), [{ $float: 'NaN' }, { $$bytes: 1 }, { $float: 'NaN', b: 1 }, { $other: 1 }, { $: 1 }]); // prettier-ignore
  assert.deepStrictEqual(read(`{"${'$'.repeat(300)}float":{"$$array":[]}}`), { [`${'$'.repeat(299)}float`]: { $array: [] } });
  for (const bad of ['{"$float":1}', '{"$float":"nan"}', '{"$float":"toString"}', '{"$bytes":1}', '{"$bytes":"A"}', '{"$bytes":"AQ"}', '{"$bytes":"A-_="}', '{"$bytes":"AQ=="}'.replace('AQ', 'A Q'), '{"$array":[]}', '{"$array":{"dtype":"f32"}}', '{"$array":{"dtype":"f128","data":""}}', '{"$array":{"dtype":"f32","data":"AQ=="}}', '{"$array":{"dtype":"u8","data":"AQ==","x":1}}']) {
    refuses(bad, 'invalid_json');
  } // prettier-ignore
});

test('streams of an event: numbers, flags, base64, null; elsewhere an array is an array', () => {
  const { data } = read('{"data":{"tokens":{"ids":[ 1 , 4294967295, 0,7.0,1e2],"mask":[true,false,0,1,255],"isContent":null,"logprobs":[-0.5,{"$float":"-Infinity"},-0],"referenceLogprobs":"AACAPw==","advantages":[],"lossWeights":{"rl":[1.5],"x":"AACA\\/w=="},"other":[1]},"logprobs":[1],"streams":{"entropies":[2],"isMasked":[true]},"ids":[1]}}', {}) as { data: Record<string, Record<string, PackedArray>> }; // prettier-ignore
  const tokens = data['tokens'] as Record<string, PackedArray> & { lossWeights: Record<string, PackedArray> };
  const values = (a: PackedArray | undefined): unknown => (a === undefined ? undefined : [a.dtype, ...(a as PackedArray<'f32'>).typed()]);
  assert.deepStrictEqual(values(tokens['ids']), ['u32', 1, 4294967295, 0, 7, 100]);
  assert.deepStrictEqual(values(tokens['mask']), ['u8', 1, 0, 0, 1, 255]);
  assert.deepStrictEqual(values(tokens['logprobs']), ['f32', -0.5, -Infinity, -0]);
  assert.deepStrictEqual(values(tokens['referenceLogprobs']), ['f32', 1]);
  assert.deepStrictEqual(values(tokens['advantages']), ['f32']);
  assert.deepStrictEqual(values(tokens.lossWeights['rl']), ['f32', 1.5]);
  assert.deepStrictEqual(values(tokens.lossWeights['x']), ['f32', Buffer.from('AACA/w==', 'base64').readFloatLE(0)]);
  assert.deepStrictEqual(values(data['streams']?.['isMasked']), ['u8', 1]);
  assert.deepStrictEqual([tokens['isContent'], tokens['other'], data['ids']], [null, [1], [1]]);
  assert.deepStrictEqual(read('{"tokens":{"ids":[1]}}', {}), { tokens: { ids: [1] } });
  assert.deepStrictEqual(read('{"data":{"tokens":{"ids":[1]}}}'), { data: { tokens: { ids: [1] } } });
});

test('a long stream grows its scratch and keeps its values', () => {
  const ids = Array.from({ length: 300_000 }, (_, i) => i);
  const { data } = read(JSON.stringify({ data: { tokens: { ids } } }), {}) as { data: { tokens: { ids: PackedArray<'u32'> } } };
  assert.deepEqual(data.tokens.ids.typed(), Uint32Array.from(ids));
});

test('wrong stream elements are refused by field', () => {
  const stream = (field: string, json: string, code: ErrorCode): void => {
    assert.throws(() => read(`{"data":{"tokens":{"${field}":${json}}}}`, {}), (e) => isTapedeckError(e, code) && (code === 'invalid_json' || e.message.includes(`data.tokens.${field}`) || code === 'number_out_of_range'), `${field} ${json}`); // prettier-ignore
  };
  for (const bad of ['[-1]', '[4294967296]', '[1.5]', '[1e10]', '[12345678901]', '[-0.5]']) stream('ids', bad, 'number_out_of_range');
  for (const bad of ['[256]', '[-1]', '[0.5]']) stream('mask', bad, 'number_out_of_range');
  for (const bad of ['[1e39]', '[-3.5e38]', '[1e400]', '[3.4028235677973366e38]']) stream('logprobs', bad, 'number_out_of_range');
  for (const bad of ['["1"]', '[null]', '[true]', '[[1]]', '[{}]']) stream('ids', bad, 'wrong_type');
  for (const bad of ['["NaN"]', '[null]', '[{"a":1}]', '[{"$bytes":""}]', '"AQ=="', '"NaN!"', '"AACAPw"'])
    stream('logprobs', bad, 'wrong_type');
  for (const bad of ['[1', '[1,', '[1,]', '[,]', '[01]', '[1 2]', '[NaN]', '[1.]']) stream('ids', bad, 'invalid_json');
});

test('foreign text: the words of Python are floats, dollars and streams mean nothing', () => {
  assert.deepStrictEqual(read('[NaN,Infinity,-Infinity,{"$float":"NaN"},{"$bytes":1}]', { foreign: true }), [NaN, Infinity, -Infinity, { $float: 'NaN' }, { $bytes: 1 }]); // prettier-ignore
  assert.deepStrictEqual(read('{"data":{"tokens":{"ids":[1]}}}', { foreign: true }), { data: { tokens: { ids: [1] } } });
  refuses('Nan', 'invalid_json', { foreign: true });
});

test('JSON out: floats stay floats, streams are base64, control characters are escaped', () => {
  assert.equal(again('{"data":{"tokens":{"ids":[1,2],"mask":{"$array":{"dtype":"f32","data":""}}},"x":1.0,"y":100000000000000000000.0,"z":1e-7}}'), '{"data":{"tokens":{"ids":"AQAAAAIAAAA=","mask":{"$array":{"dtype":"f32","data":""}}},"x":1.0,"y":100000000000000000000.0,"z":1e-7}}'); // prettier-ignore
  assert.equal(again('"\\u0000\\u001f\\u007f\\u2028é\\"\\\\\\n"'), '"\\u0000\\u001f\u007f\u2028é\\"\\\\\\n"');
  assert.equal(again('{"10":1,"9":2,"a":3,"1":4}'), '{"10":1,"9":2,"a":3,"1":4}');
});

test('arbitrary and damaged text gives a value or a coded error', () => {
  const coded = (bytes: Buffer): void => {
    try {
      jsonToCbor(bytes, 0, bytes.length, new ByteWriter(64));
    } catch (error) {
      if (!isTapedeckError(error)) throw error;
    }
    const split = splitJsonItems(bytes);
    if (split.ok) for (const { start, end } of split.value) assert.ok(start < end && end <= bytes.length);
    for (const { start, end } of splitNdjson(bytes)) assert.ok(start < end && end <= bytes.length);
  };
  const alphabet = fc.string({ unit: fc.constantFrom(...'{}[]",:\\u0123456789abcdefnrtls-+.eE $\n\u0000é'.split('')), maxLength: 40 });
  fc.assert(fc.property(fc.oneof(fc.uint8Array({ maxLength: 40 }).map((b) => Buffer.from(b)), alphabet.map((s) => Buffer.from(s))), coded), { numRuns: 5000 }); // prettier-ignore
  const event = Buffer.from('{"data":{"tokens":{"ids":[1,2],"mask":"AQE=","logprobs":[-0.25,{"$float":"NaN"}]},"s":"\\ud83d\\ude00\\n","n":[12345678901234567890,-0,1e5]}}');
  fc.assert(
    fc.property(fc.nat(event.length - 1), fc.nat(255), fc.nat(event.length), (i, x, cut) => {
      const damaged = Buffer.from(event.subarray(0, cut));
      if (i < cut) damaged[i] = x;
      coded(damaged);
    }),
    { numRuns: 5000 },
  );
}); // prettier-ignore

const ranges = (body: string | Buffer, max?: number): unknown => {
  const bytes = Buffer.from(body);
  const split = splitJsonItems(bytes, max);
  return split.ok ? split.value.map(({ start, end }) => bytes.toString('utf8', start, end).trim()) : split.error.code;
};

test('the events of a JSON body', () => {
  assert.deepEqual(ranges('{"a":"}]\\""}'), ['{"a":"}]\\""}']);
  assert.deepEqual(ranges(' [ {"a":[{}]} , 3 ,"x,]", null,[] ] \n'), ['{"a":[{}]}', '3', '"x,]"', 'null', '[]']);
  assert.deepEqual(ranges('\ufeff[{}]'), ['{}']);
  assert.deepEqual(ranges('[]'), []);
  assert.deepEqual(ranges('[1,2,3]', 2), ['1', '2']);
  assert.deepEqual(ranges('[{"a":\u0001},{}]'), ['{"a":\u0001}', '{}']);
  for (const bad of ['', '  ', '1', '"a"', '[', '[{}', '[{}', '[{}}', '[{"a":"]', '[{}]x', '{}{}', '[,{}]', '[{},]', '[{"a":"\\"}]']) assert.equal(ranges(bad), 'invalid_json', bad); // prettier-ignore
});

test('an event is found whole whatever its strings end with, and every cut is noticed', () => {
  const endings = ['', '\\\\', '\\"', '\\\\\\"', 'x\\\\', ']', '}', '\\u0022'];
  const events = endings.map((end) => `{"k":"${'t'.repeat(40)}${end}","n":[${'10,'.repeat(9)}0,"${end}"]}`);
  const body = `[${events.join(',')}]`;
  assert.deepEqual(ranges(body), events);
  for (const event of events) assert.equal(typeof JSON.parse(event), 'object');
  for (let cut = 0; cut < body.length; cut++) assert.equal(ranges(body.slice(0, cut)), 'invalid_json', body.slice(0, cut));
});

test('the lines of an NDJSON body, blank ones skipped, a torn last one kept', () => {
  const body = Buffer.from('{"a":1}\r\n\n \t\n{"b":2}\n{"c":');
  assert.deepEqual(splitNdjson(body).map(({ start, end }) => body.toString('utf8', start, end).trim()), ['{"a":1}', '{"b":2}', '{"c":']); // prettier-ignore
  assert.equal(splitNdjson(body, 1).length, 1);
  assert.deepEqual(splitNdjson(Buffer.alloc(0)), []);
});

test('the ranges of a batch are its events', () => {
  fc.assert(fc.property(fc.array(jsonText, { maxLength: 5 }), (items) => assert.deepEqual(ranges(`[${items.join(' ,\n')}]`), items)), { numRuns: 300 }); // prettier-ignore
});
