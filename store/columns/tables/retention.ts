import { label, micros, nullable, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/** project.retention_set, one row per event; the latest by time counts (these events may lie in any partition). */
export const retention = table('retention', {
  project: label,
  id: uuid,
  days: nullable(uint64),
  time: micros,
  ...position,
});
