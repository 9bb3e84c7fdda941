import { micros, nullable, text, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRun, position } from './shared-columns.ts';

/** Optimizer steps, one row per event; the latest per step, feed and timeline counts. */
export const trainerSteps = table('trainer_steps', {
  ...inRun,
  feed: text,
  timeline: uint64,
  step: uint64,
  id: uuid,
  batch: nullable(text),
  metrics: text,
  extra: nullable(text),
  time: micros,
  ...position,
});
