import { label, maybeLabel, micros, nullable, text, uint32, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** Labels and comments on any entity, keyed by the event id. */
export const notes = table('notes', {
  ...inTrace,
  group: text,
  id: uuid,
  scope: label,
  node: nullable(uint32),
  label: maybeLabel,
  text: nullable(text),
  author: maybeLabel,
  extra: nullable(text),
  time: micros,
  ...position,
});
