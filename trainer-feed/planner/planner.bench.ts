/** Planning of 100,000 rows and writing of slices: seconds, tokens per second, and the limit of copying the same bytes. */
import { planBatch } from './plan.ts';
import { planRequest } from './plan-request.ts';
import { rowOf } from './rows.arbitrary.ts';
import { prepareSlices } from './slices.ts';

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number;
const timed = (work: () => void): number => {
  const started = performance.now();
  work();
  return (performance.now() - started) / 1000;
};

const shape = rowOf(0, 1);
const many = Array.from({ length: 100_000 }, (_, i) => ({ ...shape, rowId: String(i), seqLen: 64 + ((i * 7919) % 4000) }));
const request = planRequest.parse({ world: 8, maxTokens: 16_384, padToMultiple: 64 });
const planning = median(Array.from({ length: 5 }, () => timed(() => planBatch('b', many, request))));
say(`plan of 100,000 rows over 8 ranks: ${(planning * 1000).toFixed(0)} ms`);
const plan = planBatch('b', many, request);
if (plan.ok)
  say(
    `imbalance ${(100 * plan.value.imbalance).toFixed(4)} %, padding ${plan.value.paddingTokens} tokens, ${plan.value.microBatchesPerRank} micro-batches a rank`,
  );

const rows = Array.from({ length: 1_000 }, (_, i) => rowOf(i, 512 + ((i * 7919) % 3000)));
const tokens = rows.reduce((sum, { seqLen }) => sum + seqLen, 0);
const small = planBatch('b', rows, request);
if (!small.ok) throw new Error(small.error.message);
const header = { feed: 'f', timeline: 0, n: 1, batchId: 'b', algorithm: 'grpo', policyVersion: 0, counts: { nRl: 1, nCe: 1, nRefKl: 1 } };
const rates = Array.from({ length: 5 }, () => {
  const writing = timed(() => {
    for (const slice of prepareSlices(header, rows, small.value)) if (slice.bytes.length === 0) throw new Error('empty');
  });
  const copy = new Uint8Array(tokens * 9);
  const copying = timed(() => {
    let at = 0;
    for (const { tokenIds, lossMask, logprobs } of rows) {
      for (const { buffer } of [tokenIds, lossMask, logprobs]) {
        copy.set(new Uint8Array(buffer), at);
        at += buffer.byteLength;
      }
    }
  });
  return { writing: tokens / writing / 1e6, copying: tokens / copying / 1e6 };
});
say(
  `slices with digest: ${median(rates.map((r) => r.writing)).toFixed(0)} Mtok/s; copying the same bytes: ${median(rates.map((r) => r.copying)).toFixed(0)} Mtok/s`,
);
