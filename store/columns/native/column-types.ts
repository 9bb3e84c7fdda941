/** The column types we use, each with its SQL name, its name on the wire and a writer for its cells. */
import type { PackedArray } from '../../../events/packed-array.ts';
import { FixedColumn, StringColumn, type ColumnWriter } from './column-writers.ts';
import { ArrayColumn, NullableColumn, type ArrayCell } from './nested-columns.ts';

/**
 * `sql` is the type in the table, `wire` the type in the block: LowCardinality travels as plain strings and is converted by the server
 * (`input_format_native_allow_types_conversion`, on by default).
 */
export type ColumnType<Cell> = {
  readonly sql: string;
  readonly wire: string;
  readonly open: () => ColumnWriter<Cell>;
};

export type CellOf<T> = T extends ColumnType<infer Cell> ? Cell : never;

/** Text (lone surrogates as WTF-8) or bytes. */
export const text: ColumnType<string | Uint8Array> = { sql: 'String', wire: 'String', open: () => new StringColumn() };

/** Text of few distinct values. */
export const label: ColumnType<string | Uint8Array> = { ...text, sql: 'LowCardinality(String)' };

export const maybeLabel: ColumnType<string | Uint8Array | null | undefined> = {
  ...nullable(text),
  sql: 'LowCardinality(Nullable(String))',
};

/** Exactly `width` bytes, given as bytes or as hexadecimal text. */
export function fixedString(width: number): ColumnType<Uint8Array | string> {
  const put = (buffer: Buffer, at: number, cell: Uint8Array | string): void => {
    if (typeof cell === 'string') {
      if (cell.length !== 2 * width) throw new RangeError(`a cell of FixedString(${width}) has ${cell.length} hexadecimal digits`);
      for (let i = 0; i < width; i++) buffer[at + i] = (hexValue(cell.charCodeAt(2 * i)) << 4) | hexValue(cell.charCodeAt(2 * i + 1));
      return;
    }
    if (cell.length !== width) throw new RangeError(`a cell of FixedString(${width}) has ${cell.length} bytes`);
    buffer.set(cell, at);
  };
  return fixed(`FixedString(${width})`, width, put);
}

/** A UUID in canonical text. On the wire: two little-endian halves. */
export const uuid: ColumnType<string> = fixed('UUID', 16, putUuid);

export const bool: ColumnType<boolean> = fixed('Bool', 1, (buffer, at, cell) => {
  buffer[at] = cell ? 1 : 0;
});
export const uint8: ColumnType<number> = fixed('UInt8', 1, (buffer, at, cell) => {
  buffer.writeUInt8(cell, at);
});
export const uint16: ColumnType<number> = fixed('UInt16', 2, (buffer, at, cell) => {
  buffer.writeUInt16LE(cell, at);
});
export const uint32: ColumnType<number> = fixed('UInt32', 4, (buffer, at, cell) => {
  buffer.writeUInt32LE(cell, at);
});
export const uint64: ColumnType<number | bigint> = fixed<number | bigint>('UInt64', 8, putUint64);
export const int64: ColumnType<number | bigint> = fixed<number | bigint>('Int64', 8, putInt64);
export const float32: ColumnType<number> = fixed('Float32', 4, (buffer, at, cell) => {
  buffer.writeFloatLE(cell, at);
});
export const float64: ColumnType<number> = fixed('Float64', 8, (buffer, at, cell) => {
  buffer.writeDoubleLE(cell, at);
});

/** A time in integer microseconds since 1970 UTC. */
export const micros: ColumnType<number | bigint> = fixed<number | bigint>("DateTime64(6, 'UTC')", 8, putInt64);

export function nullable<Cell>(type: ColumnType<Cell>): ColumnType<Cell | null | undefined> {
  const sql = `Nullable(${type.wire})`;
  return { sql, wire: sql, open: () => new NullableColumn(type.open()) };
}

export function array<Cell>(type: ColumnType<Cell>): ColumnType<ArrayCell<Cell>> {
  return { sql: `Array(${type.sql})`, wire: `Array(${type.wire})`, open: () => new ArrayColumn(type.open()) };
}

/** A token stream: packed arrays of this element type are copied as bytes; another element type of the same width is refused. */
export function stream<D extends 'u8' | 'u32' | 'f32'>(dtype: D): ColumnType<PackedArray<D> | null | undefined> {
  const element = { u8: uint8, u32: uint32, f32: float32 }[dtype] as ColumnType<number>;
  return array(element) as ColumnType<PackedArray<D> | null | undefined>;
}

function fixed<Cell>(name: string, width: number, put: (buffer: Buffer, at: number, cell: Cell) => void): ColumnType<Cell> {
  return { sql: name, wire: name, open: () => new FixedColumn(width, put) };
}

function putUint64(buffer: Buffer, at: number, cell: number | bigint): void {
  if (typeof cell === 'bigint') {
    buffer.writeBigUInt64LE(cell, at);
    return;
  }
  if (!Number.isSafeInteger(cell) || cell < 0) throw new RangeError(`${cell} is not an unsigned 64-bit integer`);
  buffer.writeUInt32LE(cell % 2 ** 32, at);
  buffer.writeUInt32LE(Math.floor(cell / 2 ** 32), at + 4);
}

function putInt64(buffer: Buffer, at: number, cell: number | bigint): void {
  if (typeof cell === 'number' && cell >= 0) putUint64(buffer, at, cell);
  else buffer.writeBigInt64LE(BigInt(cell), at);
}

function putUuid(buffer: Buffer, at: number, cell: string): void {
  if (cell.length !== 36) throw new RangeError('not a UUID in canonical text');
  for (let half = 0; half < 2; half++) {
    let from = HALVES[half] as number;
    for (let byte = 7; byte >= 0; byte--) {
      if (cell.charCodeAt(from) === DASH) from++;
      const value = (hexValue(cell.charCodeAt(from)) << 4) | hexValue(cell.charCodeAt(from + 1));
      buffer[at + half * 8 + byte] = value;
      from += 2;
    }
  }
}

/** Where the two 8-byte halves begin in the text. */
const HALVES = [0, 19] as const;
const DASH = 0x2d;

function hexValue(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  if (code >= 0x61 && code <= 0x66) return code - 0x57;
  throw new RangeError('not a UUID in canonical text');
}
