import { label, text } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/**
 * Resolves a group, rollout or trace id without its run. `kind` is group, rollout or trace; `rollout` is empty for groups. A row of kind rollout_mirror or
 * trace_mirror says where a mirror of the rollout or trace `id` lies: it is found by the id of its original, which may not be there (yet). A row of kind run says
 * from where on the run `id` has rollouts: one row per log partition, whose number stands in `rollout`, so that a list of runs reads no rollouts.
 */
export const ids = table('ids', {
  project: label,
  kind: label,
  id: text,
  run: label,
  rollout: text,
  ...position,
});
