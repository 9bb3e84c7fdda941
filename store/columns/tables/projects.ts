import { label, text } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';

/** Projects that have a database of views; `views` is a hash of their definitions. */
export const projects = table('projects', {
  project: label,
  database: text,
  views: text,
});
