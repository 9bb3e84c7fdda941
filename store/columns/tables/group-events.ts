import { label, maybeLabel, micros, nullable, text, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRun, position } from './shared-columns.ts';

/** What events say about a group: rollout.started (declared size, task) and group.sealed. One row per event. */
export const groupEvents = table('group_events', {
  ...inRun,
  group: text,
  id: uuid,
  type: label,
  rollout: text,
  size: nullable(uint64),
  sealed_size: nullable(uint64),
  sealed: nullable(micros),
  reason: maybeLabel,
  env: maybeLabel,
  task_key: nullable(text),
  extra: nullable(text),
  time: micros,
  ...position,
});
