import { label, maybeLabel, micros, nullable, uint16, uint32, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** One row per record of the log: what became of it. Written last in every block; its largest offset per partition is the position of the store. */
export const logIndex = table('log_index', {
  status: label,
  reason: maybeLabel,
  type: label,
  id: nullable(uuid),
  ...inTrace,
  time: nullable(micros),
  bytes: uint32,
  producer: maybeLabel,
  producer_epoch: nullable(uint64),
  producer_seq: nullable(uint64),
  first_partition: nullable(uint16),
  first_offset: nullable(uint64),
  ...position,
});
