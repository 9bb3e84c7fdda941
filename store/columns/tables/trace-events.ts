import { bool, label, maybeLabel, micros, nullable, text, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** trace.started and trace.ended, one row per event. */
export const traceEvents = table('trace_events', {
  ...inTrace,
  id: uuid,
  type: label,
  agent: maybeLabel,
  model: maybeLabel,
  trainable: nullable(bool),
  mirror_of: nullable(text),
  started: nullable(micros),
  ok: nullable(bool),
  stop_condition: maybeLabel,
  truncated: nullable(bool),
  nodes: nullable(uint64),
  calls: nullable(uint64),
  ended: nullable(micros),
  time: micros,
  ...position,
});
