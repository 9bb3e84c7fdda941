import { bool, fixedString, label, micros, nullable, uint32, uint64 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** The narrow part of a node: what lists, summaries and the conflict check read. Counts are NULL when the node has no token streams. */
export const nodes = table('nodes', {
  ...inTrace,
  index: uint32,
  parent: nullable(uint32),
  role: label,
  sampled: bool,
  tokens: nullable(uint64),
  sampled_tokens: nullable(uint64),
  policy_version_min: nullable(uint64),
  policy_version_max: nullable(uint64),
  call: nullable(uint32),
  time: micros,
  _hash: fixedString(16),
  ...position,
});
