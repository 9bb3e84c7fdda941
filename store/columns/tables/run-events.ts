import { label, maybeLabel, micros, nullable, text, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRun, position } from './shared-columns.ts';

/** run.started and run.ended, one row per event. */
export const runEvents = table('run_events', {
  ...inRun,
  id: uuid,
  type: label,
  kind: maybeLabel,
  name: nullable(text),
  model: nullable(text),
  config: nullable(text),
  envs: nullable(text),
  tags: nullable(text),
  status: maybeLabel,
  ended: nullable(micros),
  metrics: nullable(text),
  extra: nullable(text),
  time: micros,
  ...position,
});
