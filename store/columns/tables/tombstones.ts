import { micros, nullable, text, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRun, position } from './shared-columns.ts';

/** Deleted runs, for ever. Independent of position: a rebuild loads these first. */
export const tombstones = table('tombstones', {
  ...inRun,
  id: uuid,
  reason: nullable(text),
  time: micros,
  ...position,
});
