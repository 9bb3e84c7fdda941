import { int64, label, micros, nullable, text, uint32, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** Errors of any entity, keyed by the event id: an error has no other identity. */
export const errors = table('errors', {
  ...inTrace,
  group: text,
  id: uuid,
  scope: label,
  node: nullable(uint32),
  type: label,
  message: text,
  status_code: nullable(int64),
  traceback: nullable(text),
  extra: nullable(text),
  time: micros,
  ...position,
});
