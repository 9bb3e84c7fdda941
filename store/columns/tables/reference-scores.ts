import { label, maybeLabel, micros, nullable, stream, text, uint32, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** Late teacher scores of a node, compact like its logprobs. One row per event. */
export const referenceScores = table('reference_scores', {
  ...inTrace,
  node: uint32,
  source: label,
  version: maybeLabel,
  id: uuid,
  logprobs: stream('f32'),
  extra: nullable(text),
  time: micros,
  ...position,
});
