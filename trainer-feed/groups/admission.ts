/** Which rollouts may enter a feed. Decided once, by the first `rollout.started` of a rollout. */
import type { DataOf } from '../../events/registry.ts';
import { isMap } from '../../events/fields.ts';

export type Admission = {
  readonly project: string;
  /** null = every run of the project. */
  readonly runs: readonly string[] | null;
  /** null = every environment. */
  readonly envs: readonly string[] | null;
  readonly work: 'train' | 'eval' | 'any';
  /** What a rollout without `work` counts as. */
  readonly unlabelled: 'train' | 'eval' | 'skip';
  /** `source` of the `reference.scored` events that count for rollouts of an env; null = none do. */
  readonly teacherOf: (env: string) => string | null;
  /** Every source that counts for some env. */
  readonly teachers: ReadonlySet<string>;
  /** Field of the task's data that holds a demonstration, by env; null = none is needed. */
  readonly demoKeyOf: (env: string) => string | null;
};

/** For feeds whose algorithms need neither teacher nor demonstration. */
export const NO_TEACHER: Pick<Admission, 'teacherOf' | 'teachers' | 'demoKeyOf'> = {
  teacherOf: () => null,
  teachers: new Set(),
  demoKeyOf: () => null,
};

/** Why it may not enter, or null. */
export function admits(admission: Admission, started: DataOf<'rollout.started'>): 'work' | 'unlabelled' | 'env' | null {
  if (admission.envs !== null && !admission.envs.includes(started.env?.id ?? '')) return 'env';
  const type = started.work?.type ?? null;
  if (type === null)
    return admission.unlabelled === admission.work || (admission.work === 'any' && admission.unlabelled !== 'skip') ? null : 'unlabelled';
  return admission.work === 'any' || admission.work === type ? null : 'work';
}

/** The demonstration in a task's data, as text; null when there is none. */
export function demonstrationOf(admission: Admission, env: string, data: unknown): string | null {
  const key = admission.demoKeyOf(env);
  if (key === null || !isMap(data)) return null;
  const value = data[key];
  return typeof value === 'string' ? value : null;
}
