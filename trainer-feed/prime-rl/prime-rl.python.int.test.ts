/** The files for prime-rl as prime-rl's own types read them, beside the rows they were made of. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findPython } from '../../e2e/python.ts';
import type { Row } from '../cut/row.ts';
import { planBatch } from '../planner/plan.ts';
import { planRequest } from '../planner/plan-request.ts';
import { rowOf } from '../planner/rows.arbitrary.ts';
import { prepareSlices } from '../planner/slices.ts';
import { microBatchFile } from './micro-batch-file.ts';

const PRIME = join(import.meta.dirname, '../../../shared/peers/src/prime-rl');
const found = await findPython({ packages: ['msgspec==0.19.0'], imports: ['msgspec'] });
const skip = 'missing' in found ? found.missing : existsSync(PRIME) ? false : 'the source of prime-rl (../shared/peers/src) is not here';

type Read = Readonly<Record<string, readonly (number | string | boolean)[] | null>>;

const hex = (value: number): string => (Object.is(value, -0) ? '-0x0.0p+0' : hexOf(value));

/** As Python's `float.hex` writes a finite double. */
function hexOf(value: number): string {
  if (value === 0) return '0x0.0p+0';
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, Math.abs(value));
  const high = bits.getUint32(0);
  const exponent = (high >>> 20) - 1023;
  const fraction = (high & 0xf_ffff).toString(16).padStart(5, '0') + bits.getUint32(4).toString(16).padStart(8, '0');
  return `${value < 0 ? '-' : ''}0x1.${fraction}p${exponent < 0 ? '-' : '+'}${Math.abs(exponent)}`;
}

test('every token, mask, log-probability and weight arrives at the rank it was planned for', { skip }, async () => {
  if ('missing' in found) return;
  const weights = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => (i % 3) / 3);
  const rows = Array.from({ length: 17 }, (_, i) => {
    const length = 2 + ((i * 31) % 40);
    return rowOf(i, length, i === 3 ? { ceWeights: weights(length), advantage: weights(length) } : {});
  });
  const plan = planBatch('b', rows, planRequest.parse({ world: 2, maxTokens: 96, padToMultiple: 8 }));
  assert.ok(plan.ok);
  const header = { feed: 'f', timeline: 0, n: 1, batchId: 'b', algorithm: 'grpo', policyVersion: 0, counts: { nRl: 1, nCe: 1, nRefKl: 1 } };
  const folder = await mkdtemp(join(tmpdir(), 'tapedeck-prime-rl-'));
  try {
    const paths: string[] = [];
    for (const { rank, bytes } of prepareSlices(header, rows, plan.value)) {
      paths.push(join(folder, `rank_${rank}.bin`));
      await writeFile(paths.at(-1) as string, microBatchFile(bytes));
    }
    const script = join(import.meta.dirname, 'print_micro_batches.py');
    const { stdout } = await promisify(execFile)(found.python, [script, PRIME, ...paths], { timeout: 120_000, maxBuffer: 1 << 28 });
    const read = JSON.parse(stdout) as Read[][];
    assert.equal(read.length, 2);
    for (const [rank, microBatches] of read.entries()) {
      assert.equal(microBatches.length, plan.value.microBatchesPerRank);
      for (const [k, fields] of microBatches.entries()) compare(fields, plan.value.ranks[rank]?.[k] as never, rows);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

function compare(fields: Read, planned: { rows: readonly number[]; padding: number }, all: readonly Row[]): void {
  const rows = planned.rows.map((i) => all[i] as Row);
  const pad = <T>(values: readonly T[], value: T): T[] => [...values, ...Array<T>(planned.padding).fill(value)];
  const joined = (of: (row: Row) => ArrayLike<number>): number[] => rows.flatMap((row) => Array.from(of(row)));
  const lengths = rows.map(({ seqLen }) => seqLen);
  if (planned.padding > 0 && lengths.length > 0) lengths[lengths.length - 1] = (lengths.at(-1) as number) + planned.padding;
  assert.deepEqual(fields['sequence_lengths'], lengths.length > 0 ? lengths : [planned.padding]);
  assert.deepEqual(fields['seq_lens'], fields['sequence_lengths']);
  assert.deepEqual(fields['input_ids'], pad(joined((row) => row.tokenIds), 1)); // prettier-ignore
  assert.deepEqual(fields['loss_mask'], pad(joined((row) => row.lossMask).map(Boolean), false)); // prettier-ignore
  assert.deepEqual(fields['inference_logprobs'], pad(joined((row) => row.logprobs), 0).map(hex)); // prettier-ignore
  const advantages = joined((row) =>
    Float32Array.from(row.lossMask, (m, i) =>
      m === 0 ? 0 : typeof row.advantage === 'number' ? row.advantage : (row.advantage?.[i] ?? 0),
    ),
  );
  assert.deepEqual(fields['advantages'], pad(advantages, 0).map(hex));
  assert.deepEqual(fields['temperatures'], pad(joined((row) => new Float32Array(row.seqLen).fill(row.temperature as number)), 1).map(hex)); // prettier-ignore
  assert.deepEqual(fields['position_ids'], pad(joined((row) => Array.from({ length: row.seqLen }, (_, i) => i)), 0).map((p, i, list) => (i < list.length - planned.padding ? p : i - (list.length - planned.padding)))); // prettier-ignore
  assert.deepEqual(fields['env_names'], [...rows.flatMap(({ env, seqLen }) => Array<string>(seqLen).fill(env)), ...Array<string>(planned.padding).fill('')]); // prettier-ignore
  assert.deepEqual(fields['ce_weights'], pad(joined((row) => row.ceWeights ?? new Float32Array(row.seqLen)), 0).map(hex)); // prettier-ignore
  for (const name of ['ref_logprobs', 'rl_weights', 'ref_kl_weights', 'routed_experts', 'mm_kwargs']) assert.equal(fields[name], null);
}
