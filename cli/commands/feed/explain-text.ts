/** A batch for people: what it is, its groups with rewards and advantages, and what it left out and why. */
import { visible } from '../../render/terminal-text.ts';
import type { Manifest, ManifestRow } from '../../../trainer-feed/server/manifest.ts';
import { numberText, tableText, timeText } from './columns-text.ts';

export function explainText(manifest: Manifest): string {
  const { n, batchId, feed, timeline, algorithm, policyVersion, counts, committed, cut, statistics } = manifest;
  const head = [
    `batch ${n} of feed ${feed}, timeline ${timeline}: ${committed ? 'committed' : 'not committed yet'}`,
    `  id        ${batchId}`,
    `  before    ${manifest.previousId ?? 'none: it is the first'}`,
    `  cut       ${timeText(cut)}, policy version ${policyVersion ?? 'not known'}, algorithm ${algorithm}`,
    `  holds     ${counts.rows} rows of ${counts.rollouts} rollouts in ${manifest.groups.length} groups, ${counts.tokens} tokens, longest ${counts.longestRow}`,
    `  divide by N_rl ${counts.N_rl}, N_ce ${counts.N_ce}, N_ref_kl ${counts.N_ref_kl}`,
    ...rewardLine(statistics),
    ...modesLine(statistics),
  ];
  const groups = manifest.groups.flatMap((group) =>
    groupText(
      group,
      manifest.rows.filter((row) => row.group === group),
    ),
  );
  return [...head, '', ...groups, ...leftOutText(manifest)].map(visible).join('\n').trimEnd();
}

function rewardLine(statistics: Manifest['statistics']): string[] {
  const { rewardMean, rewardStd } = statistics as { rewardMean?: number | null; rewardStd?: number | null };
  if (typeof rewardMean !== 'number') return [];
  return [
    `  rewards   mean ${numberText(rewardMean)}${typeof rewardStd === 'number' ? `, standard deviation ${numberText(rewardStd)}` : ''}`,
  ];
}

/** Rows whose log-probabilities were taken before and after temperature and top-p do not mix: a trainer that divides logits by temperature needs the latter. */
function modesLine(statistics: Manifest['statistics']): string[] {
  const modes = (statistics as { logprobsModes?: Readonly<Record<string, number>> }).logprobsModes ?? {};
  const used = Object.entries(modes).filter(([, rows]) => rows > 0);
  return used.length < 2 ? [] : [`  logprobs  MIXED: ${used.map(([mode, rows]) => `${rows} rows ${mode}`).join(', ')}`];
}

function groupText(group: string, rows: readonly ManifestRow[]): string[] {
  const cells = rows.map((row) => [
    row.rollout, row.trace, row.leaf, row.reward, row.advantage, row.staleness, row.seqLen, row.members.rl + row.members.ce + row.members.refKl, row.status,
  ]); // prettier-ignore
  const table = tableText(['rollout', 'trace', 'leaf', 'reward', 'advantage', 'stale', 'tokens', 'trained', 'status'], cells);
  return [
    `group ${group} (${rows[0]?.env ?? ''}${rows[0]?.taskKey ? `, task ${rows[0].taskKey}` : ''})`,
    ...table.map((line) => `  ${line}`),
    '',
  ];
}

function leftOutText({ excluded }: Manifest): string[] {
  if (excluded.length === 0) return ['nothing was left out'];
  const sums = new Map<string, { count: number; tokens: number }>();
  for (const { reason, length } of excluded) {
    const sum = sums.get(reason) ?? { count: 0, tokens: 0 };
    sums.set(reason, { count: sum.count + 1, tokens: sum.tokens + (length ?? 0) });
  }
  const summary = [...sums].map(([reason, { count, tokens }]) => `${count} ${reason} (${tokens} tokens)`).join(', ');
  const rows = excluded.map((one) => [
    one.reason,
    one.group,
    one.rollout ?? 'all of it',
    one.trace ?? '',
    one.leaf,
    one.staleness,
    one.length,
    one.message ?? '',
  ]);
  return [
    `left out: ${summary}`,
    ...tableText(['reason', 'group', 'rollout', 'trace', 'leaf', 'stale', 'tokens', ''], rows).map((line) => `  ${line}`),
  ];
}
