/** A resource: what can be listed, filtered, sorted and fetched, over which view. */
import type { View } from '../../store/columns/views/view.ts';
import type { Field } from './field.ts';

export type ResourceName =
  | 'runs' | 'envs' | 'tasks' | 'groups' | 'rollouts' | 'traces' | 'nodes' | 'calls' | 'tools' | 'rewards' | 'errors' | 'policies' | 'steps' | 'batches' | 'notes' | 'metrics' | 'batch_rows'; // prettier-ignore

export type Resource = {
  readonly name: ResourceName;
  /** One of them, for sentences. */
  readonly one: string;
  readonly about: string;
  readonly view: View;
  readonly fields: readonly Field[];
  /** Fields that together name one row: the end of every sort, so that an order is total. */
  readonly key: readonly string[];
  /** As in `sort=`: a leading minus is descending. */
  readonly sort: readonly string[];
  /** Below `/v1`: where one row is fetched, its parameters being fields. Null where another route answers. */
  readonly fetch: string | null;
  /** Whether it reads the summaries of rollouts and traces, which follow the facts by a second. */
  readonly isSummary: boolean;
  /** Entity scope of named rewards that are fields `reward.<name>`, and of named metrics, `metric.<name>`. */
  readonly rewards: 'rollout' | 'trace' | 'node' | null;
  readonly metrics: 'run' | 'group' | 'rollout' | 'trace' | 'node' | 'step' | null;
};

export function fieldOf(resource: Resource, name: string): Field | undefined {
  return resource.fields.find((field) => field.name === name);
}
