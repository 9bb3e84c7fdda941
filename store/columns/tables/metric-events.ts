import { float64, label, micros, nullable, text, uint32, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRollout, position } from './shared-columns.ts';

/** Metrics, one row per event; the latest per entity and name counts. Ids below the scope are empty. */
export const metricEvents = table('metric_events', {
  ...inRollout,
  scope: label,
  group: text,
  trace: text,
  _node: uint32,
  name: label,
  id: uuid,
  value: nullable(float64),
  extra: nullable(text),
  time: micros,
  ...position,
});
