import { bool, label, maybeLabel, micros, nullable, text, uint32, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRollout, position } from './shared-columns.ts';

/** rollout.started, rollout.ended and rollout.cancelled, one row per event. */
export const rolloutEvents = table('rollout_events', {
  ...inRollout,
  id: uuid,
  type: label,
  group: nullable(text),
  env: maybeLabel,
  env_name: maybeLabel,
  task_type: maybeLabel,
  task_key: nullable(text),
  task_hash: nullable(text),
  work_type: maybeLabel,
  step: nullable(uint64),
  policy_version: nullable(uint64),
  policy_version_end: nullable(uint64),
  attempt: nullable(uint64),
  parent_rollout: nullable(text),
  fork_trace: nullable(text),
  fork_node: nullable(uint32),
  mirror_of: nullable(text),
  started: nullable(micros),
  ok: nullable(bool),
  stop_condition: maybeLabel,
  traces: nullable(uint64),
  ended: nullable(micros),
  cancelled: maybeLabel,
  time: micros,
  ...position,
});
