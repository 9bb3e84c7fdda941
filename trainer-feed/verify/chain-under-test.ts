/** Manifests of a small feed for tests: as they were cut, and with one thing changed. */
import { cut } from '../cut/cut.ts';
import { CONTEXT, groupOf, plainGroup, scoredBy } from '../cut/ready-groups.arbitrary.ts';

/** Three batches as manifests, by way of JSON. */
export function chain(): Record<string, unknown>[] {
  let previousId: string | null = null;
  return [1, 2, 3].map((n) => {
    const groups = [plainGroup([1, 0, 1], [2, 3, 4], { group: `g${n}` }), groupOf([{ reward: 1 }, { reward: 0, ok: false }, { reward: 0 }], { group: `h${n}`, readyAt: 1 })];
    const context = { ...CONTEXT, n, previousId, sourcePositions: [[0, n * 10], [1, 5]] as const };
    const result = cut(scoredBy('grpo'), groups, context);
    const { counts, rows, excluded, batchId } = result;
    const manifest = {
      feed: context.feed, n, batchId, previousId, specHash: context.specHash, policyVersion: context.policyVersion, sourcePositions: context.sourcePositions,
      counts: { rows: counts.rows, tokens: counts.tokens, N_rl: counts.nRl, N_ce: counts.nCe, N_ref_kl: counts.nRefKl },
      groups: [...new Set(rows.map((r) => r.group))],
      rows: rows.map(({ rowId, group, seqLen, contentHash, signalHash, members }) => ({ rowId, group, seqLen, contentHash, signalHash, members, extra: 'kept by others' })),
      excluded,
    };
    previousId = batchId;
    return JSON.parse(JSON.stringify(manifest)) as Record<string, unknown>;
  });
} // prettier-ignore

/** The chain with one field of batch `n` changed, found by its path. */
export function changed(n: number, path: string, value: unknown): unknown[] {
  const manifests = chain();
  const keys = path.split('.');
  let at: Record<string, unknown> = manifests[n - 1] as Record<string, unknown>;
  for (const key of keys.slice(0, -1)) at = at[key] as Record<string, unknown>;
  at[keys.at(-1) as string] = value;
  return manifests;
}
