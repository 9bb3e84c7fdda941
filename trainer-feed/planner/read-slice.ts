/** Reads a slice back: the reverse of slices.ts, for exports and tests. */
import { tableFromIPC, type RecordBatch, type Vector } from 'apache-arrow';
import { PADDING } from './batch-columns.ts';

export type ReadMicroBatch = {
  /** Row i is tokens [offsets[i], offsets[i + 1]); the padding row is the last. */
  readonly offsets: Int32Array;
  /** Length of the padding row, 0 where there is none. */
  readonly padding: number;
  readonly envs: readonly string[];
  /** One value per row, padding included; null where it is missing or there is no such column. 64-bit integers as numbers. */
  readonly values: (name: string) => readonly (string | number | null)[];
  /** A per-token column, null where the batch has none. Do not write to it. */
  readonly stream: (name: string) => Int32Array | Uint8Array | Float32Array | null;
  /** One value per token, a copy: the row's advantage on its trained tokens, 0 elsewhere. */
  readonly advantages: () => Float32Array;
  /** One value per token, a copy; NaN where none was recorded. */
  readonly temperatures: () => Float32Array;
};

export function readSlice(bytes: Uint8Array): ReadMicroBatch[] {
  return tableFromIPC(bytes).batches.map(readMicroBatch);
}

function readMicroBatch(batch: RecordBatch): ReadMicroBatch {
  const rows = batch.numRows;
  const lists = batch.getChild('token_ids')?.data[0]?.valueOffsets as Int32Array | undefined;
  const offsets = lists?.subarray(0, rows + 1) ?? new Int32Array(1);
  const stream = (name: string): Float32Array | null => {
    const column: Vector | null = batch.getChild(name);
    return column === null ? null : ((column.data[0]?.children[0]?.values as Float32Array | undefined)?.subarray(0, offsets[rows]) ?? null);
  };
  const scalars = (name: string): unknown[] => Array.from({ length: rows }, (_, i) => batch.getChild(name)?.get(i) as unknown);
  const isPadded = rows > 0 && batch.getChild('status')?.get(rows - 1) === PADDING;
  const spread = (name: string, own: string, missing: number): Float32Array => {
    const given = stream(own);
    if (given !== null) return given.slice();
    const values = new Float32Array(offsets[rows] as number);
    for (const [row, value] of scalars(name).entries())
      values.fill(typeof value === 'number' ? value : missing, offsets[row], offsets[row + 1]);
    return values;
  };
  return {
    offsets,
    padding: isPadded ? (offsets[rows] as number) - (offsets[rows - 1] as number) : 0,
    envs: scalars('env_id').map(String),
    values: (name) =>
      scalars(name).map((value) => (typeof value === 'bigint' ? Number(value) : ((value ?? null) as string | number | null))),
    stream,
    advantages: () => {
      const values = spread('advantage', 'advantages', 0);
      const mask = stream('loss_mask') as unknown as Uint8Array;
      for (let i = 0; i < values.length; i++) if (mask[i] === 0) values[i] = 0;
      return values;
    },
    temperatures: () => spread('temperature', 'temperatures', NaN),
  };
}
