import { float64, label, maybeLabel, micros, nullable, text, uint32, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRollout, position } from './shared-columns.ts';

/** Rewards, one row per event; the latest per entity and name counts. `trace` is empty for scope rollout, `_node` 4294967295 for scopes above a node. */
export const rewardEvents = table('reward_events', {
  ...inRollout,
  scope: label,
  trace: text,
  _node: uint32,
  name: label,
  group: nullable(text),
  id: uuid,
  score: nullable(float64),
  weight: nullable(float64),
  source_kind: maybeLabel,
  source_name: maybeLabel,
  source_version: maybeLabel,
  supersedes: nullable(uuid),
  extra: nullable(text),
  time: micros,
  ...position,
});
