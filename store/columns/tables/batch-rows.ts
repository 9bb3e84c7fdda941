import { float64, label, nullable, text, uint32, uint64 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/** The rows of a cut batch: which tokens a step trained on. Filled from the row list that batch.cut names; the position is that of batch.cut. */
export const batchRows = table('batch_rows', {
  project: label,
  feed: text,
  timeline: uint64,
  n: uint64,
  row_id: text,
  batch_id: text,
  run: label,
  rollout: text,
  trace: text,
  leaf: uint32,
  group: nullable(text),
  env: label,
  seq_len: nullable(uint64),
  trained: nullable(uint64),
  advantage: nullable(float64),
  weights: nullable(text),
  reward: nullable(float64),
  policy_version_min: nullable(uint64),
  policy_version_max: nullable(uint64),
  staleness: nullable(float64),
  ...position,
});
