/**
 * Whether the rows of a batch as ranks read them are the rows that its manifest names: of each row the content hash and the signal hash are computed anew from the tokens, masks,
 * log-probabilities, advantages and weights in the slices (docs/algorithms.md, "Identity"), and the member tokens are counted. The ids of the chain are made of these hashes, so
 * nothing that is trained can differ from what was decided. Pure; any world and any packing will do, as long as all ranks are given.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { PADDING } from '../planner/batch-columns.ts';
import type { ReadMicroBatch } from '../planner/read-slice.ts';

const count = z.int().nonnegative();
const scalar = z.union([z.number(), z.literal('per token')]).nullable();
const listed = z.object({
  n: count,
  rows: z.array(
    z.object({
      rowId: z.string(),
      seqLen: count,
      contentHash: z.string(),
      signalHash: z.string(),
      advantage: scalar,
      temperature: scalar,
      hasReference: z.boolean(),
      members: z.object({ rl: count, ce: count, refKl: count }),
      weights: z.object({ rl: z.number().nullable(), ce: z.number().nullable(), refKl: z.number().nullable() }),
    }),
  ),
});
type ListedRow = z.output<typeof listed>['rows'][number];

export type RowFlaw = {
  readonly n: number | null;
  readonly flaw: 'unreadable' | 'row_missing' | 'row_unknown' | 'row_served_twice' | 'content_hash' | 'signal_hash' | 'members';
  readonly message: string;
};

/** All flaws of the rows of one batch; `microBatches` of all its ranks. */
export function verifyRows(given: unknown, microBatches: Iterable<ReadMicroBatch>): readonly RowFlaw[] {
  const read = listed.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    return [{ n: null, flaw: 'unreadable', message: `${issue?.path.join('.')}: ${issue?.message}` }];
  }
  const { n, rows } = read.data;
  const byId = new Map(rows.map((row) => [row.rowId, row]));
  const seen = new Set<string>();
  const flaws: RowFlaw[] = [];
  for (const microBatch of microBatches) {
    const ids = microBatch.values('row_id');
    const states = microBatch.values('status');
    for (const [i, id] of ids.entries()) {
      if (states[i] === PADDING) continue;
      const row = byId.get(String(id));
      if (row === undefined)
        flaws.push({ n, flaw: 'row_unknown', message: `batch ${n} serves row ${id}, which its manifest does not list` });
      else if (seen.has(row.rowId)) flaws.push({ n, flaw: 'row_served_twice', message: `batch ${n} serves row ${id} twice` });
      else flaws.push(...flawsOf(n, row, microBatch, i));
      seen.add(String(id));
    }
  }
  for (const { rowId } of rows)
    if (!seen.has(rowId)) flaws.push({ n, flaw: 'row_missing', message: `batch ${n} lists row ${rowId} and does not serve it` });
  return flaws;
}

function flawsOf(n: number, row: ListedRow, microBatch: ReadMicroBatch, i: number): RowFlaw[] {
  const flaws: RowFlaw[] = [];
  const wrong = (flaw: RowFlaw['flaw'], what: string, said: unknown, found: unknown): void =>
    void flaws.push({
      n,
      flaw,
      message: `row ${row.rowId} of batch ${n}: the manifest says ${what} ${String(said)}, what is served has ${String(found)}`,
    });
  const content = contentHashOf(row, microBatch, i);
  if (content !== row.contentHash) wrong('content_hash', 'content hash', row.contentHash, content);
  const signal = signalHashOf(row, microBatch, i);
  if (signal !== row.signalHash) wrong('signal_hash', 'signal hash', row.signalHash, signal);
  const members = membersOf(row, microBatch, i);
  for (const key of ['rl', 'ce', 'refKl'] as const)
    if (members[key] !== row.members[key]) wrong('members', `${key} members`, row.members[key], members[key]);
  return flaws;
}

/** The bytes of the row's part of a stream; null where the batch has none. */
function part(microBatch: ReadMicroBatch, name: string, i: number): Uint8Array | null {
  const stream = microBatch.stream(name);
  if (stream === null) return null;
  const own = stream.subarray(microBatch.offsets[i], microBatch.offsets[i + 1]);
  return new Uint8Array(own.buffer, own.byteOffset, own.byteLength);
}

const CONTENT_HEAD = 48;
const SIGNAL_HEAD = 16;

function contentHashOf(row: ListedRow, microBatch: ReadMicroBatch, i: number): string {
  const value = (name: string): number | null => {
    const found = microBatch.values(name)[i];
    return typeof found === 'number' ? found : null;
  };
  const varies = row.temperature === 'per token';
  const scalars = [
    value('reward'),
    varies ? null : (row.temperature as number | null),
    value('policy_version_min'),
    value('policy_version_max'),
  ];
  const head = Buffer.alloc(CONTENT_HEAD);
  head.write('ROW1', 0, 'latin1');
  head.writeUInt32LE(lengthOf(microBatch, i), 4);
  head[8] = microBatch.values('status')[i] === 'truncated' ? 1 : 0;
  head[9] = scalars.reduce<number>((bits, each, at) => (each === null ? bits : bits | (1 << at)), (row.hasReference ? 16 : 0) | (varies ? 32 : 0)); // prettier-ignore
  for (const [at, each] of scalars.entries()) head.writeDoubleLE(each ?? 0, 16 + 8 * at);
  return sha256(
    head,
    part(microBatch, 'token_ids', i),
    part(microBatch, 'logprobs', i),
    row.hasReference ? part(microBatch, 'ref_logprobs', i) : null,
    varies ? part(microBatch, 'temperatures', i) : null,
    part(microBatch, 'loss_mask', i),
  );
}

function signalHashOf(row: ListedRow, microBatch: ReadMicroBatch, i: number): string {
  const { rl, ce, refKl } = row.weights;
  const perToken = row.advantage === 'per token';
  const head = Buffer.alloc(SIGNAL_HEAD);
  head.write('SIG1', 0, 'latin1');
  head[4] = row.advantage === null ? 0 : perToken ? 2 : 1;
  head[5] = (rl === null ? 0 : 1) | (ce === null ? 0 : 2) | (refKl === null ? 0 : 4);
  if (typeof row.advantage === 'number') head.writeFloatLE(served(row.advantage, microBatch, i), 8);
  return sha256(
    head,
    perToken ? part(microBatch, 'advantages', i) : null,
    rl === null ? null : part(microBatch, 'rl_weights', i),
    ce === null ? null : part(microBatch, 'ce_weights', i),
    refKl === null ? null : part(microBatch, 'ref_kl_weights', i),
  );
}

/** An advantage that is one number as ranks get it: a column, or on every trained token. */
function served(listedAdvantage: number, microBatch: ReadMicroBatch, i: number): number {
  const column = microBatch.values('advantage')[i];
  if (typeof column === 'number') return column;
  const values = microBatch.stream('advantages') ?? [];
  const mask = microBatch.stream('loss_mask') ?? [];
  const from = microBatch.offsets[i] as number;
  let found = listedAdvantage;
  for (let at = from; at < (microBatch.offsets[i + 1] as number); at++) {
    if (mask[at] === 1 && !Object.is(values[at], Math.fround(found))) found = values[at] as number;
  }
  return found;
}

function lengthOf(microBatch: ReadMicroBatch, i: number): number {
  return (microBatch.offsets[i + 1] as number) - (microBatch.offsets[i] as number);
}

/** Tokens that take part in each component: rl where the mask is 1 and the weight not 0, the others by their weights. */
function membersOf(row: ListedRow, microBatch: ReadMicroBatch, i: number): ListedRow['members'] {
  const mask = microBatch.stream('loss_mask') ?? [];
  const [from, to] = [microBatch.offsets[i] as number, microBatch.offsets[i + 1] as number];
  const counted = (weights: ArrayLike<number> | null, alone: boolean, masked: boolean): number => {
    if (weights === null && !alone) return 0;
    let total = 0;
    for (let at = from; at < to; at++) if ((!masked || mask[at] === 1) && (weights === null || weights[at] !== 0)) total++;
    return total;
  };
  const weights = (name: string, present: number | null): ArrayLike<number> | null => (present === null ? null : microBatch.stream(name));
  return {
    rl: counted(weights('rl_weights', row.weights.rl), row.weights.rl === null, true),
    ce: counted(weights('ce_weights', row.weights.ce), false, false),
    refKl: counted(weights('ref_kl_weights', row.weights.refKl), false, false),
  };
}

function sha256(...parts: readonly (Uint8Array | null)[]): string {
  return hash('sha256', Buffer.concat(parts.filter((each) => each !== null)), 'hex');
}
