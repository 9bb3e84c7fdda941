import { micros, nullable, stream, text, uint32, uint64, uint8, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** What the trainer computed per token of a trained branch. One row per event; `_streams` says which streams were given. */
export const trainerAnnotations = table('trainer_annotations', {
  ...inTrace,
  leaf: uint32,
  feed: text,
  timeline: uint64,
  step: nullable(uint64),
  id: uuid,
  _streams: uint8,
  trainer_logprobs: stream('f32'),
  entropies: stream('f32'),
  is_masked: stream('u8'),
  extra: nullable(text),
  time: micros,
  ...position,
});
