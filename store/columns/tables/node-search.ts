import { label, text, uint32 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** Message text with its text index, filled behind the projector (search-index.ts). */
export const nodeSearch = table('node_search', {
  ...inTrace,
  index: uint32,
  role: label,
  text: text,
  ...position,
});
