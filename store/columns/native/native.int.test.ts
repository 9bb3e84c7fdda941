import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { PackedArray } from '../../../events/packed-array.ts';
import type { ColumnStore } from '../column-store.ts';
import { openTestStore, type TestStore } from '../test-store.ts';
import {
  array, bool, fixedString, float32, float64, int64, label, maybeLabel, micros, nullable, stream, text, uint16, uint32, uint64, uint8, uuid,
  type ColumnType,
} from './column-types.ts'; // prettier-ignore
import { openBlock, table } from './table-block.ts';
import { encodeWtf8 } from '../../../events/codec/wtf8.ts';

let engine: TestStore;
let store: ColumnStore;
before(async () => {
  engine = await openTestStore();
  store = engine.connect('default');
});
after(() => engine.close());

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex').toUpperCase();
const hexText = (cell: unknown): string => hex(typeof cell === 'string' ? encodeWtf8(cell) : (cell as Uint8Array));
const double = (value: number): string => new BigUint64Array(new Float64Array([value]).buffer)[0]!.toString();
const single = (value: number): string => new Uint32Array(new Float32Array([value]).buffer)[0]!.toString();

/** A type, its cells, how the engine says a value and how we say it. */
type Case = { type: ColumnType<any>; cells: fc.Arbitrary<unknown>; sql: (x: string) => string; say: (cell: any) => unknown }; // oxlint-disable-line typescript/no-explicit-any
const asText = (x: string): string => `toString(${x})`;
const say = (cell: unknown): string => String(cell);
const integer = (type: ColumnType<number>, max: number): Case => ({
  type,
  cells: fc.oneof(fc.constantFrom(0, 1, max), fc.integer({ min: 0, max })),
  sql: asText,
  say,
});

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 400 }),
  fc.string({ maxLength: 20 }),
  fc.constantFrom(
    '',
    '\0',
    'a\0b',
    '\ud800',
    'x\udc00y\ud83d',
    '🦜'.repeat(40),
    'é'.repeat(100),
    'a'.repeat(127),
    'a'.repeat(128),
    'a'.repeat(20_000),
  ),
  fc.uint8Array({ maxLength: 100 }),
);
const anyDouble = fc.oneof(
  fc.constantFrom(Number.NaN, Infinity, -Infinity, -0, 0, 5e-324, 1.7976931348623157e308),
  fc.double({ noNaN: true }),
);
const anySingle = fc.oneof(fc.constantFrom(Number.NaN, Infinity, -Infinity, -0, 1e-45), fc.float({ noNaN: true }));

const cases: Record<string, Case> = {
  text: { type: text, cells: anyText, sql: (x) => `hex(${x})`, say: hexText },
  label: { type: label, cells: fc.oneof(anyText, fc.constantFrom('a', 'b')), sql: (x) => `hex(${x})`, say: hexText },
  fixedHex: {
    type: fixedString(16),
    cells: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString('hex')),
    sql: (x) => `lower(hex(${x}))`,
    say: (x) => x,
  },
  fixed: { type: fixedString(16), cells: fc.uint8Array({ minLength: 16, maxLength: 16 }), sql: (x) => `hex(${x})`, say: hexText },
  uuid: { type: uuid, cells: fc.uuid(), sql: asText, say },
  bool: { type: bool, cells: fc.boolean(), sql: asText, say },
  uint8: integer(uint8, 255),
  uint16: integer(uint16, 65_535),
  uint32: integer(uint32, 4_294_967_295),
  uint64: {
    type: uint64,
    cells: fc.oneof(
      fc.constantFrom<number | bigint>(0, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER, 2n ** 64n - 1n),
      fc.maxSafeNat(),
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    ),
    sql: asText,
    say,
  },
  int64: {
    type: int64,
    cells: fc.oneof(
      fc.constantFrom<number | bigint>(-1, -(2 ** 40), 2 ** 40, -(2n ** 63n), 2n ** 63n - 1n),
      fc.maxSafeInteger(),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    ),
    sql: asText,
    say,
  },
  float32: { type: float32, cells: anySingle, sql: (x) => `toString(reinterpretAsUInt32(${x}))`, say: single },
  float64: { type: float64, cells: anyDouble, sql: (x) => `toString(reinterpretAsUInt64(${x}))`, say: double },
  micros: {
    type: micros,
    cells: fc.oneof(fc.constantFrom(0, 1, 7_258_118_399_999_999), fc.integer({ min: 0, max: 7_258_118_399_999_999 })),
    sql: (x) => `toString(toUnixTimestamp64Micro(${x}))`,
    say,
  },
};

// oxlint-disable-next-line typescript/no-explicit-any -- a case may hold cells of any type
function optional(one: Case, type: ColumnType<any> = nullable(one.type)): Case {
  return { type, cells: fc.option(one.cells), sql: one.sql, say: (cell) => (cell === null ? null : one.say(cell)) };
}

function list(one: Case): Case {
  return {
    type: array(one.type),
    cells: fc.array(one.cells, { maxLength: 5 }),
    sql: (x) => `arrayMap(x -> ${one.sql('x')}, ${x})`,
    say: (cells: unknown[]) => cells.map((cell) => one.say(cell)),
  };
}

const every: Record<string, Case> = {
  ...cases,
  ...Object.fromEntries(
    Object.entries(cases)
      .filter(([name]) => name !== 'label')
      .map(([name, one]) => [`maybe_${name}`, optional(one)]),
  ),
  maybe_label: optional(cases['label'] as Case, maybeLabel),
  ...Object.fromEntries(
    Object.entries(cases)
      .filter(([name]) => name !== 'label')
      .map(([name, one]) => [`list_${name}`, list(one)]),
  ),
  list_of_maybe: list(optional(cases['uint32'] as Case)),
  list_of_lists: {
    type: array(array(float32)),
    cells: fc.array(fc.array(anySingle, { maxLength: 4 }), { maxLength: 4 }),
    sql: (x) => `arrayMap(y -> arrayMap(x -> toString(reinterpretAsUInt32(x)), y), ${x})`,
    say: (lists: number[][]) => lists.map((cells) => cells.map(single)),
  },
};

for (const [name, one] of Object.entries(every)) {
  test(`${name} (${one.type.sql}) arrives as it was sent`, async () => {
    const spec = table(`t_${name}`, { row: uint32, cell: one.type });
    await store.command(`CREATE TABLE ${spec.name} (row UInt32, cell ${one.type.sql}) ENGINE = Memory`);
    await fc.assert(
      fc.asyncProperty(fc.array(one.cells, { minLength: 1, maxLength: 60 }), async (cells) => {
        await store.command(`TRUNCATE TABLE ${spec.name}`);
        const block = openBlock(spec);
        cells.forEach((cell, row) => block.add({ row, cell }));
        await store.insertNative(spec.name, block.columnNames, block.encode());
        const rows = await store.rows<{ said: unknown }>(`SELECT ${one.sql('cell')} AS said FROM ${spec.name} ORDER BY row`);
        assert.deepEqual(
          rows.map((row) => row.said),
          cells.map((cell) => one.say(cell)),
        );
      }),
      { numRuns: 6 },
    );
  });
}

test('streams are copied as bytes, aligned or not, and absent ones are empty', async () => {
  const spec = table('t_streams', { row: uint32, ids: stream('u32'), mask: stream('u8'), logprobs: stream('f32') });
  await store.command('CREATE TABLE t_streams (row UInt32, ids Array(UInt32), mask Array(UInt8), logprobs Array(Float32)) ENGINE = Memory');
  const ids = new Uint32Array([0, 1, 4_294_967_295]);
  const unaligned = Buffer.concat([Buffer.from([9]), Buffer.from(ids.buffer)]).subarray(1);
  const block = openBlock(spec);
  block.add({
    row: 0,
    ids: PackedArray.of(ids),
    mask: PackedArray.of(new Uint8Array([0, 1, 1])),
    logprobs: PackedArray.of(new Float32Array([-0, Number.NaN])),
  });
  block.add({ row: 1, ids: new PackedArray('u32', unaligned), mask: null });
  block.add({ row: 2, ids: PackedArray.of(new Uint32Array(0)), mask: null, logprobs: null });
  assert.throws(() => block.add({ row: 3, ids: PackedArray.of(new Uint8Array(4)) as never }), TypeError);
  block.clear();
  block.add({
    row: 0,
    ids: PackedArray.of(ids),
    mask: PackedArray.of(new Uint8Array([0, 1, 1])),
    logprobs: PackedArray.of(new Float32Array([-0, Number.NaN])),
  });
  block.add({ row: 1, ids: new PackedArray('u32', unaligned), mask: null });
  block.add({ row: 2, ids: PackedArray.of(new Uint32Array(0)), mask: null, logprobs: null });
  await store.insertNative(spec.name, block.columnNames, block.encode());
  const rows = await store.rows<object>(
    'SELECT ids, mask, arrayMap(x -> hex(reinterpretAsUInt32(x)), logprobs) AS logprobs FROM t_streams ORDER BY row',
  );
  assert.deepEqual(rows, [
    { ids: [...ids], mask: [0, 1, 1], logprobs: ['00000080', '0000C07F'].map((h) => h.match(/../g)!.toReversed().join('')) },
    { ids: [...ids], mask: [], logprobs: [] },
    { ids: [], mask: [], logprobs: [] },
  ]);
});

test('one block is one part, and a cleared block starts anew', async () => {
  const spec = table('t_parts', { row: uint32, cell: text });
  await store.command('CREATE TABLE t_parts (row UInt32, cell String) ENGINE = MergeTree ORDER BY row');
  const block = openBlock(spec);
  for (let row = 0; row < 50_000; row++) block.add({ row, cell: `same id ${row >> 8}` });
  await store.insertNative(spec.name, block.columnNames, block.encode());
  assert.equal(block.rows, 50_000);
  block.clear();
  assert.equal(block.rows + block.bytes, 0);
  assert.throws(() => block.encode(), RangeError);
  block.add({ row: 7, cell: new Uint8Array([0xff, 0]) });
  await store.insertNative(spec.name, block.columnNames, block.encode());
  const parts = await store.rows(
    "SELECT toUInt32(count()) AS parts, toUInt32(sum(rows)) AS rows FROM system.parts WHERE table = 't_parts' AND active",
  );
  assert.deepEqual(parts, [{ parts: 2, rows: 50_001 }]);
  const [sum] = await store.rows<object>(
    "SELECT toUInt32(uniqExact(cell)) AS cells, toUInt32(countIf(cell = concat('same id ', toString(intDiv(row, 256))))) AS good FROM t_parts",
  );
  assert.deepEqual(sum, { cells: 197, good: 50_000 });
});
