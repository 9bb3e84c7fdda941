import { label, maybeLabel, micros, nullable, text, uint64, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/** Every decision of every feed, one row per event; `data` is the whole event data as JSON. */
export const feedEvents = table('feed_events', {
  project: label,
  feed: text,
  run: label,
  id: uuid,
  type: label,
  timeline: uint64,
  n: nullable(uint64),
  batch_id: nullable(text),
  algorithm: maybeLabel,
  policy_version: nullable(uint64),
  holder: nullable(text),
  plan_id: nullable(text),
  step: nullable(uint64),
  expires: nullable(micros),
  reason: nullable(text),
  group: nullable(text),
  rewound_from: nullable(uint64),
  rewound_to: nullable(uint64),
  mode: maybeLabel,
  data: text,
  time: micros,
  ...position,
});
