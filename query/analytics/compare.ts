/** Two or more systems on the same tasks, paired. Pure. */
import { seededRandom } from '../../base/random.ts';
import type { Method } from './estimates.ts';
import { measureOf } from './estimates.ts';
import { estimateTask, isShare, labelOf, type Measure, type MeasureName } from './measure.ts';
import type { Task } from './outcome.ts';
import { bootstrapOverTasks, type Bootstrap } from './statistics/bootstrap.ts';
import { intervalOverTasks, type Interval } from './statistics/interval.ts';
import { mean } from './statistics/moments.ts';
import { holm, mcNemar, minimumDetectable, pairedT, tasksNeeded, type McNemar, type PairedT } from './statistics/paired.ts';
import { signFlip, type SignFlip } from './statistics/sign-flip.ts';

/** A test that would be run again finds the difference with this chance. */
export const POWER = 0.8;

export type TaskPair = {
  readonly id: string;
  readonly env: string | null;
  readonly taskKey: string | null;
  readonly taskHash: string | null;
  readonly base: { readonly n: number; readonly solved: number; readonly value: number };
  readonly other: { readonly n: number; readonly solved: number; readonly value: number };
  readonly difference: number;
};

export type PairedMeasure = {
  readonly measure: string;
  readonly k: number | null;
  /** Common tasks on which both sides have at least k rollouts with a score. */
  readonly tasks: number;
  /** Common tasks left out because a side has fewer. */
  readonly leftOut: number;
  readonly base: { readonly estimate: number | null; readonly interval: Interval };
  readonly other: { readonly estimate: number | null; readonly interval: Interval };
  /** Other minus base, paired by task, with a t interval. */
  readonly paired: PairedT;
  readonly bootstrap: (Bootstrap & { readonly seed: number }) | null;
  readonly signFlip: SignFlip | null;
  /** Only where both sides have one binary outcome per task. */
  readonly mcNemar: McNemar | null;
  /** The sign-flip p adjusted by Holm over all comparisons of this measure. */
  readonly pAdjusted: number | null;
  readonly won: number;
  readonly lost: number;
  readonly tied: number;
  /** Smallest true difference that this many tasks would find in 80 % of tries. */
  readonly minimumDetectable: number | null;
  /** Tasks that would be needed to find the difference seen here in 80 % of tries. */
  readonly tasksNeeded: number | null;
  readonly verdict: 'better' | 'worse' | 'not decided' | 'no data';
};

export type CommonTasks = {
  readonly common: readonly (readonly [Task, Task])[];
  readonly onlyBase: readonly Task[];
  readonly onlyOther: readonly Task[];
};

/** Tasks of both sides by identity. A task without one is on its own side only. */
export function commonTasks(base: readonly Task[], other: readonly Task[]): CommonTasks {
  const others = new Map(other.filter((task) => task.hasIdentity).map((task) => [task.id, task]));
  const common: [Task, Task][] = [];
  const onlyBase: Task[] = [];
  for (const task of base) {
    const match = task.hasIdentity ? others.get(task.id) : undefined;
    if (match === undefined) onlyBase.push(task);
    else common.push([task, match]);
  }
  const matched = new Set(common.map(([, task]) => task));
  return { common, onlyBase, onlyOther: other.filter((task) => !matched.has(task)) };
}

export function pairTasks(common: CommonTasks['common'], measure: Measure): TaskPair[] {
  return common.flatMap(([left, right]) => {
    const [a, b] = [estimateTask(left, measure), estimateTask(right, measure)];
    if (a.value === null || b.value === null) return [];
    const { id, env, taskKey, taskHash } = left;
    return [
      {
        id, env, taskKey, taskHash,
        base: { n: a.n, solved: a.solved, value: a.value },
        other: { n: b.n, solved: b.solved, value: b.value },
        difference: b.value - a.value,
      },
    ]; // prettier-ignore
  });
}

/** One comparison of one measure; `pAdjusted` and the verdict are for a family of one (`adjusted` widens it). */
export function comparePaired(common: CommonTasks['common'], name: MeasureName, k: number | null, method: Method): PairedMeasure {
  const measure = measureOf(name, k, method);
  const pairs = pairTasks(common, measure);
  const differences = pairs.map((pair) => pair.difference);
  const options = { confidence: method.confidence, share: isShare(measure) };
  const side = (of: 'base' | 'other'): PairedMeasure['base'] => {
    const values = pairs.map((pair) => pair[of].value);
    return { estimate: mean(values), interval: intervalOverTasks(values, options) };
  };
  const paired = pairedT(differences, method.confidence);
  const flip = pairs.length === 0 ? null : signFlip(differences, { resamples: Math.max(method.resamples, 10_000), random: seededRandom(method.seed) });
  const binary = isShare(measure) && pairs.length > 0 && pairs.every(({ base, other }) => base.n === 1 && other.n === 1);
  const won = differences.filter((difference) => difference > 0).length;
  const lost = differences.filter((difference) => difference < 0).length;
  const bootstrap = method.resamples === 0 ? null : bootstrapOverTasks(differences, { confidence: method.confidence, resamples: method.resamples, random: seededRandom(method.seed) });
  return {
    measure: labelOf(measure),
    k,
    tasks: pairs.length,
    leftOut: common.length - pairs.length,
    base: side('base'),
    other: side('other'),
    paired,
    bootstrap: bootstrap === null ? null : { ...bootstrap, seed: method.seed },
    signFlip: flip,
    mcNemar: binary ? mcNemar(lost, won) : null,
    pAdjusted: flip?.p ?? null,
    won,
    lost,
    tied: pairs.length - won - lost,
    minimumDetectable: minimumDetectable(differences, method.confidence, POWER),
    tasksNeeded: paired.difference === null ? null : tasksNeeded(differences, paired.difference, method.confidence, POWER),
    verdict: verdictOf(paired.difference, flip?.p ?? null, method.confidence),
  };
} // prettier-ignore

/** Holm over comparisons of the same measure: each inner list is one comparison, measures in the same order. */
export function adjusted(comparisons: readonly (readonly PairedMeasure[])[], confidence: number): PairedMeasure[][] {
  const ps = comparisons.map((measures) => measures.map(({ signFlip: flip }) => flip?.p ?? null));
  const byMeasure = (ps[0] ?? []).map((_, measure) => holm(ps.map((ofComparison) => ofComparison[measure] ?? null)));
  return comparisons.map((measures, comparison) =>
    measures.map((each, measure) => {
      const pAdjusted = byMeasure[measure]?.[comparison] ?? null;
      return { ...each, pAdjusted, verdict: verdictOf(each.paired.difference, pAdjusted, confidence) };
    }),
  );
}

function verdictOf(difference: number | null, p: number | null, confidence: number): PairedMeasure['verdict'] {
  if (difference === null || p === null) return 'no data';
  // 1 - 0.95 is a little more than 0.05
  if (p >= Number((1 - confidence).toPrecision(12)) || difference === 0) return 'not decided';
  return difference > 0 ? 'better' : 'worse';
}
