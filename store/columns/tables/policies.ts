import { maybeLabel, micros, nullable, text, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRun, position } from './shared-columns.ts';

/** Published weights, one row per event; the latest per version and timeline counts (a trainer that redoes a step publishes it again). */
export const policies = table('policies', {
  ...inRun,
  version: uint64,
  timeline: uint64,
  id: uuid,
  step: nullable(uint64),
  uri: nullable(text),
  trainer: maybeLabel,
  extra: nullable(text),
  time: micros,
  ...position,
});
