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
  /** `source` of the `reference.scored` events that count; null = none. */
  readonly teacher: string | null;
  /** Field of the task's data that holds a demonstration; null = none is needed. */
  readonly demoKey: string | null;
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
export function demonstrationOf(admission: Admission, data: unknown): string | null {
  if (admission.demoKey === null || !isMap(data)) return null;
  const value = data[admission.demoKey];
  return typeof value === 'string' ? value : null;
}
