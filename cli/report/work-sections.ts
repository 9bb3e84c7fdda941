/** Sections of the page about what the rollouts did: rewards, length, stops, errors, tools, calls, judges, learning curves. */
import type { Rater } from '../../query/analytics/judges.ts';
import { lineChart, type LineSeries } from './charts/line-chart.ts';
import { figure, htmlTable, legend, pair, section } from './page-parts.ts';
import type { ReportData } from './report-data.ts';
import { NOTHING, percent, plainNumber } from './words.ts';

const MOST_ROWS = 25;

export function rewardsSection({ breakdown, judges }: ReportData): string {
  const rows = breakdown.rewards.map((part) => [part.name, part.scope, part.sourceKinds.join(', ') || NOTHING, plainNumber(part.score.mean), plainNumber(part.score.sd), `${plainNumber(part.score.min)} to ${plainNumber(part.score.max)}`, part.weights.map(plainNumber).join(', '), plainNumber(part.contribution), String(part.score.n), String(part.missing + part.nan)]);
  const metrics = breakdown.metrics.slice(0, MOST_ROWS).map((part) => [part.name, plainNumber(part.value.mean), plainNumber(part.value.sd), plainNumber(part.value.p50), String(part.value.n)]);
  const agreements = judges.agreements.slice(0, MOST_ROWS).map((each) => [`${raterName(each.first)} and ${raterName(each.second)}`, String(each.n), percent(each.agreement), plainNumber(each.kappa), plainNumber(each.pearson), plainNumber(each.spearman), plainNumber(each.bias)]);
  return section(
    'Rewards',
    'What the score is made of, and how far raters agree. Weighted contributions add up to the reward.',
    htmlTable('Rewards', ['reward', 'of', 'source', 'mean', 'sd', 'range', 'weight', 'contribution', 'n', 'missing'], rows),
    metrics.length === 0 ? '' : `<h3>Metrics</h3>${htmlTable('Metrics', ['metric', 'mean', 'sd', 'median', 'n'], metrics)}`,
    agreements.length === 0 ? '' : `<h3>Agreement</h3>${htmlTable('Agreement', ['raters', 'n', 'agree', 'Cohen’s κ', 'Pearson', 'Spearman', 'bias'], agreements)}`,
  );
} // prettier-ignore

function raterName({ name, source }: Rater): string {
  return source === null ? name : `${name} (${source})`;
}

export function lengthSection({ breakdown }: ReportData): string {
  const { length, truncated, stops, errors, seconds } = breakdown;
  const line = (name: string, of: { n: number; mean: number | null; p10: number | null; p50: number | null; p90: number | null; max: number | null }): string[] => [name, plainNumber(of.mean), plainNumber(of.p10), plainNumber(of.p50), plainNumber(of.p90), plainNumber(of.max), String(of.n)];
  const rows = [line('output tokens', length.outputTokens), line('output tokens, solved', length.outputTokensSolved), line('output tokens, not solved', length.outputTokensUnsolved), line('input tokens', length.inputTokens), line('turns', length.turns), line('branches', length.branches), line('seconds', seconds)];
  const stopRows = stops.slice(0, MOST_ROWS).map((stop) => [stop.stopCondition ?? 'not said', String(stop.rollouts), plainNumber(stop.meanScore)]);
  const errorRows = errors.slice(0, MOST_ROWS).map((error) => [error.type, error.scope, String(error.count), String(error.rollouts)]);
  const cut = truncated.yes + truncated.no;
  return section(
    'Length, stops and errors',
    `${truncated.yes} of ${cut} rollouts were cut off by a limit${truncated.unknown > 0 ? `, ${truncated.unknown} not known` : ''}; correlation of output tokens with score: ${plainNumber(length.withScore)}.`,
    htmlTable('Length', ['per rollout', 'mean', 'p10', 'median', 'p90', 'max', 'n'], rows.filter((cells) => cells.at(-1) !== '0')),
    pair(...[htmlTable('Stops', ['stop condition', 'rollouts', 'mean score'], stopRows), htmlTable('Errors', ['error', 'of', 'count', 'rollouts'], errorRows)].filter((part) => part !== '')),
  );
} // prettier-ignore

export function callsSection({ breakdown }: ReportData): string {
  const tools = breakdown.tools.slice(0, MOST_ROWS).map((tool) => [tool.name, String(tool.runs), String(tool.failed), percent(tool.runs === 0 ? null : tool.failed / tool.runs), String(tool.rollouts), plainNumber(tool.seconds.p50), plainNumber(tool.seconds.p90)]);
  const calls = breakdown.calls.slice(0, MOST_ROWS).map((call) => [call.model ?? 'not said', plainNumber(call.calls), String(call.failed), String(call.retries), plainNumber(call.completionTokens), plainNumber(call.seconds.p50), plainNumber(call.seconds.p90), plainNumber(call.secondsToFirstToken.p50), plainNumber(call.tokensPerSecond.p50), plainNumber(call.cost)]);
  return section(
    'Calls and tools',
    'Durations in seconds, as recorded.',
    htmlTable('Calls', ['model', 'calls', 'failed', 'retries', 'output tokens', 'p50, s', 'p90, s', 'first token, s', 'tokens/s', 'cost'], calls),
    htmlTable('Tools', ['tool', 'runs', 'failed', 'share', 'rollouts', 'p50, s', 'p90, s'], tools),
  );
} // prettier-ignore

/** Only where there is more than one step or version to draw. */
export function curvesSection({ curves }: ReportData): string {
  const [all, effective] = [curves.all[0], curves.effective[0]];
  const known = all?.points.filter((point) => point.x !== null) ?? [];
  if (known.length < 2) return '';
  const trained = effective?.points.filter((point) => point.x !== null) ?? [];
  const axis = curves.by === 'step' ? 'training step' : 'policy version';
  const series: LineSeries[] = [
    { name: 'all', tone: 1, points: known.map((point) => ({ x: point.x ?? 0, y: point.taskMean, low: point.low, high: point.high })) },
    ...(trained.length === 0 ? [] : [{ name: 'effective', tone: 2 as const, points: trained.map((point) => ({ x: point.x ?? 0, y: point.score.mean })) }]),
  ];
  const reward = lineChart({ label: `Mean score by ${axis}, from ${plainNumber(known[0]?.taskMean)} to ${plainNumber(known.at(-1)?.taskMean)}`, xLabel: axis, yLabel: 'mean score', series, format: plainNumber });
  const length = lineChart({ label: `Output tokens by ${axis}`, xLabel: axis, yLabel: 'output tokens', series: [{ name: 'mean', tone: 3, points: known.map((point) => ({ x: point.x ?? 0, y: point.outputTokens.mean, low: point.outputTokens.p10, high: point.outputTokens.p90 })) }], format: plainNumber });
  const stale = trained.length < 2 ? '' : lineChart({ label: `Staleness by ${axis}`, xLabel: axis, yLabel: 'steps', series: [{ name: 'in flight', tone: 1, points: trained.map((point) => ({ x: point.x ?? 0, y: point.staleness.inFlight })) }, { name: 'in queue', tone: 2, points: trained.map((point) => ({ x: point.x ?? 0, y: point.staleness.inQueue })) }], format: plainNumber });
  const envRows = curves.all.slice(1).map((curve) => [curve.env ?? NOTHING, String(curve.points.length), plainNumber(curve.points[0]?.taskMean), plainNumber(curve.points.at(-1)?.taskMean), plainNumber(curve.trend.slope), plainNumber(curve.trend.se)]);
  return section(
    'Learning',
    'All rollouts that were made, and what optimizer steps trained on: curricula and filters make the two differ.',
    pair(
      figure('Band: interval of the mean over tasks.', reward + legend(trained.length === 0 ? [['all rollouts', 1]] : [['all rollouts', 1], ['effective: trained on', 2]])),
      figure('Band: from p10 to p90.', length),
    ),
    stale === '' ? '' : pair(figure('How many optimizer steps old the sampling policy was, in parts.', stale + legend([['while the rollout was made', 1], ['while it waited', 2]])), ''),
    envRows.length === 0 ? '' : `<h3>Drift by environment</h3>${htmlTable('Drift by environment', ['environment', 'points', 'first', 'last', `change per ${curves.by === 'step' ? 'step' : 'version'}`, 'SE'], envRows)}`,
  );
} // prettier-ignore
