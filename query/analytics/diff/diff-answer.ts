/** Two rollouts side by side: where they part, what each was worth, how long it was, which tools it used. */
import { TapedeckError } from '../../../base/errors.ts';
import { readRewardParts } from '../breakdown/rewards.ts';
import { readErrorParts, readToolParts } from '../breakdown/work.ts';
import { taskId } from '../outcome.ts';
import type { AnsweredAsOf, Reader } from '../reader.ts';
import { readAllRollouts, readScores, readVersions } from '../rollout-facts.ts';
import { readSizes, type RolloutSize } from '../rollout-sizes.ts';
import { versionsOf, type Versions } from '../evaluation.ts';
import { callsText, firstDivergence, type Divergence, type PathNode } from './first-difference.ts';
import { readPath } from './read-path.ts';

export type RolloutName = { readonly rollout: string; readonly run: string | null; readonly trace: string | null };

export type DiffSide = {
  readonly run: string;
  readonly rollout: string;
  readonly trace: string | null;
  readonly agent: string | null;
  readonly leaf: number | null;
  readonly env: string | null;
  readonly taskKey: string | null;
  readonly taskHash: string | null;
  readonly ok: boolean | null;
  readonly cancelled: string | null;
  readonly reward: number | null;
  readonly rewards: readonly {
    readonly name: string;
    readonly scope: string;
    readonly score: number | null;
    readonly weight: number | null;
  }[];
  readonly policyVersions: Versions;
  readonly size: RolloutSize;
  /** Messages on the path that is compared. */
  readonly messages: number;
  readonly tools: readonly { readonly name: string; readonly runs: number; readonly failed: number }[];
  readonly errors: readonly { readonly type: string; readonly count: number }[];
};

export type DiffMessage = {
  readonly index: number;
  readonly role: string;
  readonly sampled: boolean;
  readonly text: string | null;
  readonly reasoning: string | null;
  readonly toolCalls: string | null;
  readonly cut: boolean;
};

export type DiffAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly sameTask: boolean;
  readonly a: DiffSide;
  readonly b: DiffSide;
  /** Messages that are the same on both paths, from their roots. */
  readonly shared: number;
  readonly divergence: Divergence | null;
  /** From one message before the divergence on; cut to `limit`. */
  readonly rows: readonly { readonly at: number; readonly a: DiffMessage | null; readonly b: DiffMessage | null }[];
  readonly rowsCut: boolean;
};

export type DiffOptions = { readonly limit: number; readonly chars: number };

/** Errors: not_found; bad_request where several runs have a rollout of that id. */
export async function readDiff(reader: Reader, a: RolloutName, b: RolloutName, options: DiffOptions): Promise<DiffAnswer> {
  const [left, right] = await Promise.all([readSide(reader, a), readSide(reader, b)]);
  const divergence = firstDivergence(left.path, right.path);
  const shared = divergence?.at ?? left.path.length;
  const from = Math.max(0, shared - 1);
  const rows = Array.from({ length: Math.max(left.path.length, right.path.length) - from }, (_, place) => {
    const at = from + place;
    return { at, a: messageOf(left.path[at], options.chars), b: messageOf(right.path[at], options.chars) };
  });
  return {
    project: reader.project,
    asOf: reader.asOf,
    sameTask: left.taskId === right.taskId,
    a: left.side,
    b: right.side,
    shared,
    divergence,
    rows: rows.slice(0, options.limit),
    rowsCut: rows.length > options.limit,
  };
}

function messageOf(node: PathNode | undefined, chars: number): DiffMessage | null {
  if (node === undefined) return null;
  const calls = node.toolCalls.length === 0 ? null : callsText(node);
  const preview = (text: string | null): string | null => (text === null ? null : text.slice(0, chars));
  const cut = [node.text, node.reasoning, calls].some((text) => text !== null && text.length > chars);
  return { index: node.index, role: node.role, sampled: node.sampled, text: preview(node.text), reasoning: preview(node.reasoning), toolCalls: preview(calls), cut };
} // prettier-ignore

type ReadSide = { readonly side: DiffSide; readonly path: readonly PathNode[]; readonly taskId: string };

async function readSide(reader: Reader, name: RolloutName): Promise<ReadSide> {
  const { rollout } = name;
  const run = await runOf(reader, name);
  const among = [rollout];
  const { rollouts } = await readAllRollouts(reader, run, among);
  const row = rollouts[0] ?? (await missing(reader, rollout));
  const [scores, sizes, versions, rewards, tools, errors, path] = await Promise.all([
    readScores(reader, run, null, among),
    readSizes(reader, run, [row], among),
    readVersions(reader, run, among),
    readRewardParts(reader, run, among),
    readToolParts(reader, run, among),
    readErrorParts(reader, run, among),
    readPath(reader, run, rollout, name.trace),
  ]);
  if (path === null && name.trace !== null) throw new TapedeckError('not_found', `the rollout "${rollout}" has no trace "${name.trace}" with nodes`);
  return {
    taskId: taskId(row),
    path: path?.nodes ?? [],
    side: {
      run,
      rollout,
      trace: path?.trace ?? null,
      agent: path?.agent ?? null,
      leaf: path?.leaf ?? null,
      env: row.env,
      taskKey: row.taskKey,
      taskHash: row.taskHash,
      ok: row.ok,
      cancelled: row.cancelled,
      reward: scores.get(rollout) ?? null,
      rewards: rewards.map((part) => ({ name: part.name, scope: part.scope, score: part.nan > 0 ? NaN : part.score.mean, weight: part.weights[0] ?? null })),
      policyVersions: versionsOf(row, versions),
      size: sizes.get(rollout) as RolloutSize,
      messages: path?.nodes.length ?? 0,
      tools: tools.map((part) => ({ name: part.name, runs: part.runs, failed: part.failed })),
      errors: errors.map(({ type, count }) => ({ type, count })),
    },
  };
} // prettier-ignore

async function runOf(reader: Reader, { rollout, run }: RolloutName): Promise<string> {
  const rows = await reader.rows<{ run: string }>(`SELECT DISTINCT run FROM ids WHERE ${reader.within()} AND kind = 'rollout' AND id = {rollout:String} ORDER BY run`, { rollout });
  const runs = rows.map((row) => row.run).filter((each) => run === null || each === run);
  if (runs.length > 1) throw new TapedeckError('bad_request', `several runs have a rollout "${rollout}": name the run`, { details: { runs: runs.slice(0, 20) } });
  return runs[0] ?? missing(reader, rollout);
} // prettier-ignore

async function missing(reader: Reader, rollout: string): Promise<never> {
  throw new TapedeckError(
    'not_found',
    `there is no rollout "${rollout}" in the project "${reader.project}" at the position ${reader.asOf.position}`,
  );
}
