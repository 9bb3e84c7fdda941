import { float64, label, micros, nullable, text, uint32, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/**
 * Samples a feed left out and why: those a batch excluded, those of groups given up, and single ones. `_item` counts the samples of one event. leaf 4294967295 = not given.
 */
export const droppedSamples = table('dropped_samples', {
  project: label,
  feed: text,
  timeline: uint64,
  run: label,
  rollout: text,
  trace: text,
  _leaf: uint32,
  _item: uint32,
  id: uuid,
  n: nullable(uint64),
  batch_id: nullable(text),
  group: nullable(text),
  reason: label,
  message: nullable(text),
  staleness: nullable(float64),
  length: nullable(uint64),
  extra: nullable(text),
  time: micros,
  ...position,
});
