/**
 * The columns of a batch as a trainer reads them: which there are is a function of the whole batch, so the schema is the same on every rank. Pure data; how it becomes Arrow
 * stands in arrow-stream.ts.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import { STREAM_FILL, type Row } from '../cut/row.ts';

/** A row of a micro-batch: a row of the batch, or the padding at its end. */
export type Cell = Row | { readonly padding: number };

/** One value per row. Text that may be missing and numbers that may be missing are nullable columns. */
export type ScalarColumn =
  | { readonly kind: 'text'; readonly name: string; readonly nullable: boolean; readonly value: (cell: Cell) => string | null }
  | {
      readonly kind: 'int32' | 'int64' | 'float32' | 'float64';
      readonly name: string;
      readonly nullable: boolean;
      readonly value: (cell: Cell) => number | null;
    };

/** `seq_len` values per row; never null. */
export type StreamColumn = {
  readonly kind: 'int32s' | 'uint8s' | 'float32s';
  readonly name: string;
  /** Writes the row's values into `out`, which has exactly its length and is zero before. */
  readonly write: (row: Row, out: never) => void;
};

export type BatchColumns = { readonly scalars: readonly ScalarColumn[]; readonly streams: readonly StreamColumn[] };

/** Columns a trainer gets only when it asks for them. */
export const EXTRA_COLUMNS = ['position_ids'] as const;
export type ExtraColumn = (typeof EXTRA_COLUMNS)[number];

/** What stands in `status` of a padding row. */
export const PADDING = 'padding';

/** Reads the `columns` of a request: names of extra columns. Error: `column_unknown`. */
export function readExtraColumns(names: readonly string[]): Result<readonly ExtraColumn[]> {
  const known = (name: string): name is ExtraColumn => (EXTRA_COLUMNS as readonly string[]).includes(name);
  const unknown = names.find((name) => !known(name));
  if (unknown !== undefined)
    return fail('column_unknown', `columns: there is no extra column "${unknown}"; there are ${EXTRA_COLUMNS.join(', ')}`, 'columns');
  return ok(EXTRA_COLUMNS.filter((name) => names.includes(name)));
}

export function lengthOf(cell: Cell): number {
  return 'padding' in cell ? cell.padding : cell.seqLen;
}

/** The columns of a batch with these rows. */
export function columnsOf(rows: readonly Row[], extra: readonly ExtraColumn[]): BatchColumns {
  const advantages = rows.some(({ advantage }) => isStream(advantage));
  const temperatures = rows.some(({ temperature }) => isStream(temperature));
  const has = (stream: 'rlWeights' | 'ceWeights' | 'refKlWeights' | 'refLogprobs'): boolean => rows.some((row) => row[stream] !== null);
  return {
    scalars: [...SCALARS, ...(advantages ? [] : [ADVANTAGE]), ...(temperatures ? [] : [TEMPERATURE])],
    streams: [
      int32s('token_ids', (row, out) => out.set(row.tokenIds)),
      uint8s('loss_mask', (row, out) => out.set(row.lossMask)),
      float32s('logprobs', (row, out) => out.set(row.logprobs)),
      ...(advantages ? [float32s('advantages', writeAdvantages)] : []),
      ...(temperatures ? [float32s('temperatures', writeTemperatures)] : []),
      ...(has('rlWeights') ? [optional('rl_weights', 'rlWeights')] : []),
      ...(has('ceWeights') ? [optional('ce_weights', 'ceWeights')] : []),
      ...(has('refKlWeights') ? [optional('ref_kl_weights', 'refKlWeights')] : []),
      ...(has('refLogprobs') ? [optional('ref_logprobs', 'refLogprobs')] : []),
      ...(extra.includes('position_ids') ? [int32s('position_ids', writePositions)] : []),
    ],
  };
}

/** An advantage that is one number stands on the trained tokens, as the trainer would expand it; elsewhere it is 0. */
function writeAdvantages(row: Row, out: Float32Array): void {
  const { advantage } = row;
  if (advantage === null) return;
  if (typeof advantage !== 'number') out.set(advantage);
  else for (let i = 0; i < out.length; i++) if (row.lossMask[i] === 1) out[i] = advantage;
}

/** A temperature nobody recorded is NaN: a trainer that divides by it notices. */
function writeTemperatures({ temperature }: Row, out: Float32Array): void {
  if (typeof temperature === 'number' || temperature === null) out.fill(temperature ?? NaN);
  else out.set(temperature);
}

function isStream(value: number | Float32Array | null): value is Float32Array {
  return typeof value === 'object' && value !== null;
}

function writePositions(_row: Row, out: Int32Array): void {
  for (let i = 0; i < out.length; i++) out[i] = i;
}

function optional(name: string, stream: 'rlWeights' | 'ceWeights' | 'refKlWeights' | 'refLogprobs'): StreamColumn {
  return float32s(name, (row, out) => {
    const values = row[stream];
    if (values === null) out.fill(STREAM_FILL[stream]);
    else out.set(values);
  });
}

const int32s = (name: string, write: (row: Row, out: Int32Array) => void): StreamColumn => ({ kind: 'int32s', name, write });
const uint8s = (name: string, write: (row: Row, out: Uint8Array) => void): StreamColumn => ({ kind: 'uint8s', name, write });
const float32s = (name: string, write: (row: Row, out: Float32Array) => void): StreamColumn => ({ kind: 'float32s', name, write });

function text(name: string, of: (row: Row) => string): ScalarColumn {
  return { kind: 'text', name, nullable: false, value: (cell) => ('padding' in cell ? '' : of(cell)) };
}

function maybeText(name: string, of: (row: Row) => string | null): ScalarColumn {
  return { kind: 'text', name, nullable: true, value: (cell) => ('padding' in cell ? null : of(cell)) };
}

type NumberKind = Exclude<ScalarColumn['kind'], 'text'>;

function number(kind: NumberKind, name: string, of: (row: Row) => number): ScalarColumn {
  return { kind, name, nullable: false, value: (cell) => ('padding' in cell ? 0 : of(cell)) };
}

function maybeNumber(kind: NumberKind, name: string, of: (row: Row) => number | null): ScalarColumn {
  return { kind, name, nullable: true, value: (cell) => ('padding' in cell ? null : of(cell)) };
}

const SCALARS: readonly ScalarColumn[] = [
  text('row_id', (row) => row.rowId),
  maybeText('run_id', (row) => row.run),
  text('rollout_id', (row) => row.rollout),
  text('trace_id', (row) => row.trace),
  number('int64', 'leaf', (row) => row.leaf),
  text('group_id', (row) => row.group),
  text('env_id', (row) => row.env),
  maybeText('task_key', (row) => row.taskKey),
  { kind: 'text', name: 'status', nullable: false, value: (cell) => ('padding' in cell ? PADDING : cell.status) },
  { kind: 'int32', name: 'seq_len', nullable: false, value: lengthOf },
  maybeNumber('float64', 'reward', (row) => row.reward),
  maybeNumber('int64', 'policy_version_min', (row) => row.policyVersionMin),
  maybeNumber('int64', 'policy_version_max', (row) => row.policyVersionMax),
  maybeNumber('int64', 'staleness', (row) => row.staleness),
  number('int32', 'log_partition', (row) => row.logOffset[0]),
  number('int64', 'log_offset', (row) => row.logOffset[1]),
];

/** A row without credit (its algorithm assigns none) reads 0: none of its tokens is an rl member. */
const ADVANTAGE = number('float32', 'advantage', ({ advantage }) => (typeof advantage === 'number' ? advantage : STREAM_FILL.advantage));
const TEMPERATURE = maybeNumber('float64', 'temperature', ({ temperature }) => (typeof temperature === 'number' ? temperature : null));
