/** One number per task, for each measure. Pure. */
import { seededRandom } from '../../base/random.ts';
import { judgedUnder, type MissingPolicy, type Task } from './outcome.ts';
import { bestOfK } from './statistics/best-of-k.ts';
import { majorityAtK } from './statistics/majority-vote.ts';
import { mean } from './statistics/moments.ts';
import { passAtK, passHatK } from './statistics/pass-at-k.ts';

export type MeasureName = 'pass@k' | 'pass^k' | 'avg@k' | 'best@k' | 'maj@k';

export type Measure = {
  readonly name: MeasureName;
  /** Rollouts per task; null for avg@k over whatever a task has. */
  readonly k: number | null;
  /** A score of at least this solves the task. */
  readonly threshold: number;
  readonly policy: MissingPolicy;
  readonly seed: number;
  /** best@k chooses by another reward than the one it is judged by. */
  readonly choosesByOther: boolean;
};

/** `value` null: the task has fewer than k rollouts with a score. */
export type TaskEstimate = { readonly task: Task; readonly n: number; readonly solved: number; readonly value: number | null };

/** Whether estimates lie in [0, 1] by construction, being shares of solved rollouts. */
export function isShare({ name }: Measure): boolean {
  return name === 'pass@k' || name === 'pass^k' || name === 'maj@k';
}

export function labelOf({ name, k }: Pick<Measure, 'name' | 'k'>): string {
  return k === null ? 'avg' : name.replace('k', String(k));
}

export function estimateTask(task: Task, measure: Measure): TaskEstimate {
  const judged = judgedUnder(task, measure.policy);
  const n = judged.length;
  const solved = judged.filter(({ score }) => score >= measure.threshold).length;
  const k = measure.k ?? n;
  if (n === 0 || k > n) return { task, n, solved, value: null };
  return { task, n, solved, value: valueOf(task, judged, { ...measure, k }, solved) };
}

function valueOf(task: Task, judged: Task['judged'], measure: Measure & { readonly k: number }, solved: number): number | null {
  const { k } = measure;
  switch (measure.name) {
    case 'pass@k':
      return passAtK(judged.length, solved, k);
    case 'pass^k':
      return passHatK(judged.length, solved, k);
    case 'avg@k':
      // the mean over all n is the unbiased estimate of the mean of k, with less noise than any k of them
      return mean(judged.map(({ score }) => score));
    case 'best@k': {
      // a rollout without that reward cannot be chosen by it: its score must not stand in, or the choice would know the answer
      const chooserOf = ({ score, chosenBy }: Task['judged'][number]): number | null => (measure.choosesByOther ? chosenBy : score);
      const candidates = judged.flatMap((each) => {
        const chosenBy = chooserOf(each);
        return chosenBy === null || Number.isNaN(chosenBy) ? [] : [{ chosenBy, worth: each.score }];
      });
      return candidates.length < k ? null : bestOfK(candidates, k);
    }
    case 'maj@k': {
      const votes = judged.filter(({ answer }) => answer !== null && !Number.isNaN(answer));
      if (votes.length < k) return null;
      const cast = votes.map(({ answer, score }) => ({ answer: answer as number, correct: score >= measure.threshold ? 1 : 0 }));
      return majorityAtK(cast, k, seededRandom(measure.seed ^ hashOf(task.id))).value;
    }
  }
}

/** FNV-1a: another stream of chance per task, whatever tasks stand beside it. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
