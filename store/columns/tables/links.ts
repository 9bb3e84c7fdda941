import { label, micros, nullable, text, uint32 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRollout, position } from './shared-columns.ts';

/** A semantic edge between nodes or traces of a rollout. The key is the whole edge (node 4294967295 = not given). */
export const links = table('links', {
  ...inRollout,
  from_trace: text,
  _from_node: uint32,
  to_trace: text,
  _to_node: uint32,
  type: label,
  extra: nullable(text),
  time: micros,
  ...position,
});
