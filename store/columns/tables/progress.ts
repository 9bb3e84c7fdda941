import { label } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/** How far a task behind the projector has come, per log partition (the search index). */
export const progress = table('progress', {
  task: label,
  ...position,
});
