/** What a replay found: as a value, and as Markdown. Pure. */
import { differenceText, type Difference } from '../request/difference.ts';
import type { Normaliser } from '../request/normalise.ts';
import type { Drift, ToolComparison } from '../tape/matcher.ts';

export type Verdict = 'match' | 'drift' | 'divergence' | 'unserved';

export type CallReport = {
  readonly trace: string;
  readonly index: number;
  readonly verdict: Verdict;
  /** `messages`: compared by what was said, since its request was not captured but rebuilt from the graph. Null: it has none. */
  readonly matchedBy: 'request' | 'messages' | null;
  /** When it was served, among the calls of this replay, from 0; null = never. */
  readonly servedAs: number | null;
  /** How many requests asked for the same answer again. */
  readonly repeats: number;
  /** How its answer ended: complete, broken, left. Null when it has none. */
  readonly ending: string | null;
  readonly status: number | null;
  /** False: the answer was printed from its recorded value and may differ in its bytes. */
  readonly isExact: boolean | null;
  readonly drifts: readonly Drift[];
  /** Served by order although the request differs. */
  readonly difference: Difference | null;
  /** Why the record cannot answer it. */
  readonly missing: string | null;
};

/** A request that no recorded call answered. */
export type Miss = {
  /** Number of the request in this replay, from 0. */
  readonly request: number;
  readonly kind: 'divergence' | 'exhausted' | 'unavailable' | 'stopped' | 'live';
  readonly comparedWith: { readonly trace: string; readonly index: number } | null;
  readonly difference: Difference | null;
  readonly message: string;
};

export type ToolReport = ToolComparison & { readonly trace: string; readonly call: number };

export type ReplayReport = {
  readonly project: string;
  readonly run: string;
  readonly rollout: string;
  readonly policy: string;
  readonly normalisers: readonly Normaliser[];
  readonly liveTools: boolean;
  readonly requests: number;
  readonly summary: {
    readonly calls: number;
    readonly served: number;
    readonly matches: number;
    readonly drifts: number;
    /** Requests that differ from the record, served or not. */
    readonly divergences: number;
    readonly unserved: number;
    readonly live: number;
    /** Served calls of all recorded ones; null when there are none. */
    readonly coverage: number | null;
    readonly tools: { readonly compared: number; readonly different: number };
  };
  readonly calls: readonly CallReport[];
  readonly misses: readonly Miss[];
  readonly tools: readonly ToolReport[];
  /** What else happened: a connection that was kept open, a client that left early. */
  readonly notes: readonly string[];
};

/** True when everything recorded was asked for, and nothing else: what a check wants. */
export function isFaithful({ summary, misses }: ReplayReport): boolean {
  return summary.divergences === 0 && summary.unserved === 0 && misses.every(({ kind }) => kind === 'live');
}

export function reportMarkdown(report: ReplayReport): string {
  const { summary, rollout, run, policy, normalisers } = report;
  const coverage = summary.coverage === null ? 'no calls' : `${(100 * summary.coverage).toFixed(1)} %`;
  return [
    `# Replay of ${rollout}`,
    '',
    `Run ${run}, policy ${policy}${report.liveTools ? ', tools live' : ''}. Normalisers: ${normalisers.map(({ name }) => name).join(', ') || 'none'}.`,
    '',
    '| calls | served | matches | drifts | divergences | unserved | live | coverage |',
    '| --- | --- | --- | --- | --- | --- | --- | --- |',
    `| ${summary.calls} | ${summary.served} | ${summary.matches} | ${summary.drifts} | ${summary.divergences} | ${summary.unserved} | ${summary.live} | ${coverage} |`,
    ...rebuiltLines(report.calls),
    ...missLines(report.misses),
    ...callLines(report.calls),
    ...toolLines(report),
    ...(report.notes.length === 0 ? [] : ['', '## Notes', '', ...report.notes.map((note) => `- ${note}`)]),
    '',
  ].join('\n');
}

function rebuiltLines(calls: readonly CallReport[]): string[] {
  const rebuilt = calls.filter(({ matchedBy }) => matchedBy === 'messages').length;
  if (rebuilt === 0) return [];
  return ['', `${rebuilt} of ${calls.length} calls were recorded without the gateway: they are matched by messages, not by a captured request, and their answers are printed from the trace.`];
} // prettier-ignore

function missLines(misses: readonly Miss[]): string[] {
  if (misses.length === 0) return [];
  return [
    '',
    '## Requests that the record did not answer',
    '',
    ...misses.map(({ request, kind, comparedWith, difference, message }) => {
      const other = comparedWith === null ? '' : ` against call ${comparedWith.index} of ${comparedWith.trace}`;
      return `- request ${request}, ${kind}${other}: ${difference === null ? message : differenceText(difference)}`;
    }),
  ];
}

function callLines(calls: readonly CallReport[]): string[] {
  const told = calls.filter(({ verdict, missing, repeats }) => verdict !== 'match' || missing !== null || repeats > 0);
  if (told.length === 0) return [];
  return [
    '',
    '## Calls',
    '',
    ...told.flatMap(({ trace, index, verdict, drifts, difference, missing, repeats }) => [
      `- call ${index} of ${trace}: ${verdict}${repeats > 0 ? `, given ${repeats + 1} times` : ''}${missing === null ? '' : `; ${missing}`}`,
      ...(difference === null ? [] : [`  - ${differenceText(difference)}`]),
      ...drifts.map((drift) => `  - ${drift.rules.join(', ') || 'unexplained'}: ${differenceText(drift)}`),
    ]),
  ];
}

function toolLines({ tools, liveTools }: ReplayReport): string[] {
  if (!liveTools) return [];
  const different = tools.filter(({ difference }) => difference !== null);
  return [
    '',
    '## Tools',
    '',
    `${tools.length} results compared, ${different.length} different.`,
    ...(different.length === 0 ? [] : ['']),
    ...different.map(
      ({ name, toolCallId, call, difference }) =>
        `- ${name ?? 'tool'} (${toolCallId}), before call ${call}: ${differenceText(difference as Difference)}`,
    ),
  ];
}
