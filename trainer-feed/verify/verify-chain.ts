/**
 * Whether manifests are what they claim to be: each id is worked out again from what the manifest lists, each batch names the one before it, denominators are the tokens of
 * the rows, and no row was trained more often than allowed. Pure: works on manifests as they came over HTTP, from whoever.
 */
import { z } from 'zod';
import { batchIdOf, excludedDigestOf } from '../cut/identity.ts';

const id = z.string().regex(/^[0-9a-f]{64}$/, 'must be a sha256 in lower-case hexadecimal');
const count = z.int().nonnegative();
const exclusion = z.object({
  run: z.string().nullable(),
  group: z.string(),
  rollout: z.string().nullable(),
  trace: z.string().nullable(),
  leaf: count.nullable(),
  reason: z.string(),
  message: z.string().nullable(),
  staleness: z.int().nullable(),
  length: count.nullable(),
});
const manifest = z.object({
  feed: z.string(),
  n: z.int().positive(),
  batchId: id,
  previousId: id.nullable(),
  specHash: id,
  policyVersion: z.int().nullable(),
  sourcePositions: z.array(z.tuple([count, count])),
  counts: z.object({ rows: count, tokens: count, N_rl: count, N_ce: count, N_ref_kl: count }),
  groups: z.array(z.string()),
  rows: z.array(
    z.object({
      rowId: z.string(),
      group: z.string(),
      seqLen: count,
      contentHash: id,
      signalHash: id,
      members: z.object({ rl: count, ce: count, refKl: count }),
    }),
  ),
  excluded: z.array(exclusion),
});
type Manifest = z.output<typeof manifest>;

/** What is wrong with which batch. `n` is null for a manifest that cannot be read. */
export type Flaw = {
  readonly n: number | null;
  readonly flaw: 'unreadable' | 'batch_id' | 'denominators' | 'groups' | 'previous' | 'gap' | 'trained_again' | 'row_twice';
  readonly message: string;
};

type Options = { readonly maxTimesTrained?: number };

/** Takes the manifests of one feed in order of n, one at a time; what they were is not kept, but the ids of their rows. */
export class ChainVerifier {
  readonly #maxTimesTrained: number;
  readonly #trained = new Map<string, number>();
  #before: Pick<Manifest, 'feed' | 'n' | 'batchId'> | null = null;
  #seen = 0;

  constructor({ maxTimesTrained = 1 }: Options = {}) {
    this.#maxTimesTrained = maxTimesTrained;
  }

  /** The flaws of the next manifest. The first may be of any batch: what came before it is not looked at. */
  add(given: unknown): readonly Flaw[] {
    const read = manifest.safeParse(given);
    const place = this.#seen++;
    if (!read.success) {
      const [issue] = read.error.issues;
      return [{ n: null, flaw: 'unreadable', message: `manifest ${place}: ${issue?.path.join('.')}: ${issue?.message}` }];
    }
    const batch = read.data;
    const flaws = flawsOf(batch);
    if (this.#before !== null) flaws.push(...linkFlaws(this.#before, batch));
    else if (batch.n === 1 && batch.previousId !== null) flaws.push({ n: 1, flaw: 'previous', message: 'batch 1 names a batch before it' });
    for (const { rowId } of batch.rows) {
      const times = (this.#trained.get(rowId) ?? 0) + 1;
      this.#trained.set(rowId, times);
      if (times === this.#maxTimesTrained + 1)
        flaws.push({ n: batch.n, flaw: 'trained_again', message: `row ${rowId} is in more than ${this.#maxTimesTrained} batches` });
    }
    this.#before = batch;
    return flaws;
  }
}

/** All flaws of `manifests`, the batches of one feed in order of n; empty = they hold. */
export function verifyChain(manifests: readonly unknown[], options: Options = {}): readonly Flaw[] {
  const verifier = new ChainVerifier(options);
  return manifests.flatMap((given) => verifier.add(given));
}

function flawsOf(batch: Manifest): Flaw[] {
  const { n, counts, rows } = batch;
  const flaws: Flaw[] = [];
  const expected = batchIdOf({
    ...batch,
    denominators: { rl: counts.N_rl, ce: counts.N_ce, refKl: counts.N_ref_kl },
    excludedDigest: excludedDigestOf(batch.excluded),
  });
  if (expected !== batch.batchId)
    flaws.push({ n, flaw: 'batch_id', message: `batch ${n} claims the id ${batch.batchId}, its content has ${expected}` });
  for (const [key, field] of [['rl', 'N_rl'], ['ce', 'N_ce'], ['refKl', 'N_ref_kl']] as const) {
    const total = Math.max(1, rows.reduce((sum, row) => sum + row.members[key], 0));
    if (total !== counts[field]) flaws.push({ n, flaw: 'denominators', message: `batch ${n} says ${field} ${counts[field]}, its rows have ${total}` });
  } // prettier-ignore
  const tokens = rows.reduce((sum, row) => sum + row.seqLen, 0);
  if (rows.length !== counts.rows || tokens !== counts.tokens) {
    flaws.push({
      n,
      flaw: 'denominators',
      message: `batch ${n} says ${counts.rows} rows of ${counts.tokens} tokens, it lists ${rows.length} of ${tokens}`,
    });
  }
  const groups = [...new Set(rows.map((row) => row.group))];
  if (JSON.stringify(groups) !== JSON.stringify(batch.groups))
    flaws.push({ n, flaw: 'groups', message: `batch ${n} lists other groups than its rows have` });
  if (new Set(rows.map((row) => row.rowId)).size !== rows.length)
    flaws.push({ n, flaw: 'row_twice', message: `batch ${n} lists a row twice` });
  return flaws;
}

function linkFlaws(before: Pick<Manifest, 'feed' | 'n' | 'batchId'>, batch: Manifest): Flaw[] {
  const { n } = batch;
  if (before.feed !== batch.feed)
    return [{ n, flaw: 'gap', message: `batch ${n} is of feed ${batch.feed}, the one before it of ${before.feed}` }];
  if (n !== before.n + 1) return [{ n, flaw: 'gap', message: `batch ${n} follows batch ${before.n}` }];
  if (batch.previousId === before.batchId) return [];
  return [{ n, flaw: 'previous', message: `batch ${n} follows ${batch.previousId}, batch ${before.n} is ${before.batchId}` }];
}
