import { label, text, uint32, uint64 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/** Where the rows of a leased batch lie under its plan. Filled from the list that batch.leased names; the position is that of batch.leased. */
export const batchPlaces = table('batch_places', {
  project: label,
  feed: text,
  timeline: uint64,
  n: uint64,
  plan_id: text,
  row_id: text,
  rank: uint32,
  micro_batch: uint32,
  position: uint32,
  ...position,
});
