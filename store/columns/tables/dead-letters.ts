import { label, nullable, text, uint16, uint32, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** Records that were not stored, with the reason and their bytes. `reason` is an error code. */
export const deadLetters = table('dead_letters', {
  reason: label,
  message: text,
  id: nullable(uuid),
  type: label,
  ...inTrace,
  bytes: uint32,
  raw: text,
  first_partition: nullable(uint16),
  first_offset: nullable(uint64),
  ...position,
});
