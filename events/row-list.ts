/**
 * The row list of a batch: what the blob that `batch.cut` names holds. Columnar CBOR under zstd: every column has one entry per row, streams of all rows are laid end to
 * end. Token ids and log-probabilities are in the log already and need not be in the list; a local copy of a batch may hold them too.
 */
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { ByteWriter } from '../base/byte-writer.ts';
import { TapedeckError } from '../base/errors.ts';
import { decodeCbor } from './codec/cbor-decode.ts';
import { encodeCbor } from './codec/cbor-encode.ts';
import { isMap } from './fields.ts';
import { PackedArray } from './packed-array.ts';

export const ROW_LIST_TYPE = 'application/vnd.tapedeck.row-list+cbor+zstd';
export const PLACES_TYPE = 'application/vnd.tapedeck.places+cbor+zstd';
export const EXCLUDED_LIST_TYPE = 'application/vnd.tapedeck.excluded-list+cbor+zstd';

/**
 * One row as listed. Streams have `seqLen` entries; a null stream is absent. `advantage` and
 * `temperature`: one number for the trained tokens, one per token, or none.
 */
export type ListedRow = {
  readonly rowId: string;
  readonly run: string | null;
  readonly rollout: string;
  readonly trace: string;
  readonly leaf: number;
  readonly group: string;
  readonly env: string;
  readonly taskKey: string | null;
  readonly agent: string;
  readonly status: string;
  readonly seqLen: number;
  readonly lossMask: Uint8Array;
  readonly advantage: number | Float32Array | null;
  readonly rlWeights: Float32Array | null;
  readonly ceWeights: Float32Array | null;
  readonly refKlWeights: Float32Array | null;
  readonly temperature: number | Float32Array | null;
  readonly reward: number | null;
  readonly policyVersionMin: number | null;
  readonly policyVersionMax: number | null;
  readonly staleness: number | null;
  readonly logOffset: readonly [partition: number, offset: number];
  readonly nodes: readonly number[];
  readonly multimodal: boolean;
  readonly members: { readonly rl: number; readonly ce: number; readonly refKl: number };
  /** Whether reference log-probabilities belong to the row. */
  readonly hasReference: boolean;
  readonly contentHash: string;
  readonly signalHash: string;
};

/** The streams that a list may leave out. */
export type RowTokens = { readonly tokenIds: Int32Array; readonly logprobs: Float32Array; readonly refLogprobs: Float32Array | null };

/** What was left out of a batch, in order: objects with run, group, rollout, trace, leaf, reason, message, staleness, length. */
export type ListedExclusion = {
  readonly run: string | null;
  readonly group: string;
  readonly rollout: string | null;
  readonly trace: string | null;
  readonly leaf: number | null;
  readonly reason: string;
  readonly message: string | null;
  readonly staleness: number | null;
  readonly length: number | null;
};

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** The bytes of a row list. `tokens` are those of the rows, in order, when they are to be in it. */
export async function encodeRowList(rows: readonly ListedRow[], tokens: readonly RowTokens[] | null): Promise<Uint8Array> {
  const out = new ByteWriter(1 << 16);
  encodeCbor({ v: 1, ...columnsOf(rows), ...(tokens === null ? {} : tokenColumns(tokens)) }, out);
  return compress(out.view());
}

const SCALARS = [
  'rowId', 'run', 'rollout', 'trace', 'leaf', 'group', 'env', 'taskKey', 'agent', 'status', 'seqLen', 'reward', 'policyVersionMin',
  'policyVersionMax', 'staleness', 'multimodal', 'hasReference',
] as const; // prettier-ignore
/** One number for the whole row, or one per token. */
const VARYING = ['advantage', 'temperature'] as const;
const STREAMS = ['rlWeights', 'ceWeights', 'refKlWeights'] as const;

function columnsOf(rows: readonly ListedRow[]): Record<string, unknown> {
  const columns: Record<string, unknown> = {};
  for (const name of SCALARS) columns[name] = rows.map((row) => row[name]);
  columns['logPartition'] = rows.map(({ logOffset }) => logOffset[0]);
  columns['logOffset'] = rows.map(({ logOffset }) => logOffset[1]);
  columns['pathLength'] = rows.map(({ nodes }) => nodes.length);
  columns['nodes'] = rows.flatMap(({ nodes }) => nodes);
  for (const part of ['rl', 'ce', 'refKl'] as const) columns[`${part}Members`] = rows.map(({ members }) => members[part]);
  columns['hashes'] = Buffer.concat(rows.map(({ contentHash, signalHash }) => Buffer.from(contentHash + signalHash, 'hex')));
  columns['lossMask'] = PackedArray.of(joinBytes(rows.map(({ lossMask }) => lossMask)));
  for (const name of VARYING) {
    columns[name] = rows.map((row) => (typeof row[name] === 'object' ? null : row[name]));
    columns[`${name}s`] = sparse(rows.map((row) => (typeof row[name] === 'object' ? row[name] : null)));
  }
  for (const name of STREAMS) columns[name] = sparse(rows.map((row) => row[name]));
  return columns;
}

/** Which rows have the stream, and the streams end to end. */
function sparse(streams: readonly (Float32Array | null)[]): { present: number[]; values: PackedArray<'f32'> } {
  const present = streams.flatMap((stream, i) => (stream === null ? [] : [i]));
  return { present, values: PackedArray.of(joinFloats(streams.filter((stream) => stream !== null))) };
}

function tokenColumns(tokens: readonly RowTokens[]): Record<string, unknown> {
  const ids = new Int32Array(tokens.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
  let at = 0;
  for (const { tokenIds } of tokens) {
    ids.set(tokenIds, at);
    at += tokenIds.length;
  }
  return {
    tokenIds: PackedArray.of(ids),
    logprobs: PackedArray.of(joinFloats(tokens.map(({ logprobs }) => logprobs))),
    refLogprobs: sparse(tokens.map(({ refLogprobs }) => refLogprobs)),
  };
}

function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function joinFloats(parts: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Reads a row list back. Streams are views into one buffer. Throws `blob_corrupt` when it is no row list. */
export async function decodeRowList(
  bytes: Uint8Array,
): Promise<{ readonly rows: readonly ListedRow[]; readonly tokens: readonly RowTokens[] | null }> {
  const columns = await decoded(bytes, 'row list');
  const list = <T>(name: string): readonly T[] => columns[name] as readonly T[];
  const lengths = list<number>('seqLen');
  const starts = startsOf(lengths);
  const mask = (columns['lossMask'] as PackedArray<'u8'>).typed();
  const paths = list<number>('pathLength');
  const pathStarts = startsOf(paths);
  const nodes = list<number>('nodes');
  const hashes = Buffer.from(columns['hashes'] as Uint8Array).toString('hex');
  const varying = { advantage: dense(columns['advantages'], lengths), temperature: dense(columns['temperatures'], lengths) };
  const streams = Object.fromEntries(STREAMS.map((name) => [name, dense(columns[name], lengths)])) as Record<(typeof STREAMS)[number], (Float32Array | null)[]>; // prettier-ignore
  const rows = lengths.map((seqLen, i) => {
    const scalars = Object.fromEntries(SCALARS.map((name) => [name, list(name)[i]])) as Pick<ListedRow, (typeof SCALARS)[number]>;
    const start = starts[i] as number;
    const path = pathStarts[i] as number;
    return {
      ...scalars,
      lossMask: mask.subarray(start, start + seqLen),
      advantage: varying.advantage[i] ?? list<number | null>('advantage')[i] ?? null,
      temperature: varying.temperature[i] ?? list<number | null>('temperature')[i] ?? null,
      rlWeights: streams.rlWeights[i] ?? null,
      ceWeights: streams.ceWeights[i] ?? null,
      refKlWeights: streams.refKlWeights[i] ?? null,
      logOffset: [list<number>('logPartition')[i] as number, list<number>('logOffset')[i] as number] as const,
      nodes: nodes.slice(path, path + (paths[i] as number)),
      members: {
        rl: list<number>('rlMembers')[i] as number,
        ce: list<number>('ceMembers')[i] as number,
        refKl: list<number>('refKlMembers')[i] as number,
      },
      contentHash: hashes.slice(i * 128, i * 128 + 64),
      signalHash: hashes.slice(i * 128 + 64, i * 128 + 128),
    };
  });
  return { rows, tokens: columns['tokenIds'] === undefined ? null : tokensFrom(columns, lengths, starts) };
}

async function decoded(bytes: Uint8Array, what: string): Promise<Record<string, unknown>> {
  const value = await decompress(bytes).then((plain) => decodeCbor(plain)).catch(() => null); // prettier-ignore
  if (!isMap(value) || value['v'] !== 1) throw new TapedeckError('blob_corrupt', `these bytes are no ${what} this program can read`);
  return value;
}

function startsOf(lengths: readonly number[]): number[] {
  let at = 0;
  return lengths.map((length) => {
    const start = at;
    at += length;
    return start;
  });
}

function dense(column: unknown, lengths: readonly number[]): (Float32Array | null)[] {
  const { present, values } = column as { present: readonly number[]; values: PackedArray<'f32'> };
  const all = values.typed();
  const out: (Float32Array | null)[] = lengths.map(() => null);
  let at = 0;
  for (const i of present) {
    out[i] = all.subarray(at, at + (lengths[i] as number));
    at += lengths[i] as number;
  }
  return out;
}

function tokensFrom(columns: Record<string, unknown>, lengths: readonly number[], starts: readonly number[]): RowTokens[] {
  const ids = (columns['tokenIds'] as PackedArray<'i32'>).typed();
  const logprobs = (columns['logprobs'] as PackedArray<'f32'>).typed();
  const reference = dense(columns['refLogprobs'], lengths);
  return lengths.map((length, i) => {
    const start = starts[i] as number;
    return {
      tokenIds: ids.subarray(start, start + length),
      logprobs: logprobs.subarray(start, start + length),
      refLogprobs: reference[i] ?? null,
    };
  });
}

export async function encodeExcludedList(excluded: readonly ListedExclusion[]): Promise<Uint8Array> {
  const out = new ByteWriter(1 << 14);
  encodeCbor({ v: 1, excluded }, out);
  return compress(out.view());
}

/** Throws `blob_corrupt` when it is no such list. */
export async function decodeExcludedList(bytes: Uint8Array): Promise<readonly ListedExclusion[]> {
  return (await decoded(bytes, 'list of exclusions'))['excluded'] as readonly ListedExclusion[];
}

/** Where a row lies under a plan: rank, micro-batch on that rank, place in the micro-batch, each from 0. */
export type ListedPlace = { readonly rowId: string; readonly rank: number; readonly microBatch: number; readonly position: number };

export async function encodePlaces(places: readonly ListedPlace[]): Promise<Uint8Array> {
  const out = new ByteWriter(1 << 14);
  const column = <K extends keyof ListedPlace>(name: K): ListedPlace[K][] => places.map((place) => place[name]);
  encodeCbor({ v: 1, rowId: column('rowId'), rank: column('rank'), microBatch: column('microBatch'), position: column('position') }, out);
  return compress(out.view());
}

/** Throws `blob_corrupt` when it is no such list. */
export async function decodePlaces(bytes: Uint8Array): Promise<readonly ListedPlace[]> {
  const columns = await decoded(bytes, 'list of places');
  const at = <T>(name: string, i: number): T => (columns[name] as readonly T[])[i] as T;
  return (columns['rowId'] as readonly string[]).map((rowId, i) => ({
    rowId,
    rank: at<number>('rank', i),
    microBatch: at<number>('microBatch', i),
    position: at<number>('position', i),
  }));
}
