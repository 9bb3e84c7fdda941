/** Columns of tokens as an Arrow IPC stream of one record batch. Everything of this lane that knows the Arrow library is in this file. */
import {
  Field,
  Float32,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  Uint32,
  Uint8,
  type Data,
} from 'apache-arrow';
import type { TokenColumn } from './token-columns.ts';

const TYPES = { u32: Uint32, u8: Uint8, f32: Float32, i64: Int64 } as const;

/** Nullable where a value may be missing; no compression, no dictionaries. */
export function tokensArrow(
  columns: ReadonlyMap<string, TokenColumn>,
  length: number,
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const fields = [...columns].map(([name, { kind, present }]) => new Field(name, new TYPES[kind](), present !== null));
  const schema = new Schema(fields, new Map(Object.entries(metadata)));
  const children = [...columns.values()].map((column) => dataOf(column, length));
  const writer = new RecordBatchStreamWriter({ autoDestroy: false });
  writer.reset(undefined, schema);
  writer.write(new RecordBatch(schema, makeData({ type: new Struct(fields), length, nullCount: 0, children })));
  writer.finish();
  return writer.toUint8Array(true);
}

function dataOf({ kind, values, present }: TokenColumn, length: number): Data {
  const nulls = present === null ? {} : { nullBitmap: present };
  const nullCount = present === null ? 0 : length - bitsIn(present);
  return makeData({ type: new TYPES[kind]() as Uint32, length, nullCount, data: values as Uint32Array, ...nulls }) as unknown as Data;
}

function bitsIn(bytes: Uint8Array): number {
  let bits = 0;
  for (let byte of bytes) for (; byte !== 0; byte &= byte - 1) bits++;
  return bits;
}
