import { bool, float64, maybeLabel, micros, nullable, text, uint64 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace } from './shared-columns.ts';

/** One row per trace, recomputed from the facts (summaries.ts). */
export const traceSummary = table('trace_summary', {
  ...inTrace,
  group: nullable(text),
  env: maybeLabel,
  task_key: nullable(text),
  agent: maybeLabel,
  model: maybeLabel,
  trainable: nullable(bool),
  mirror_of: nullable(text),
  policy_version_min: nullable(uint64),
  policy_version_max: nullable(uint64),
  ok: nullable(bool),
  stop_condition: maybeLabel,
  truncated: nullable(bool),
  reward: nullable(float64),
  rewards: uint64,
  rewards_missing: uint64,
  input_tokens: nullable(uint64),
  output_tokens: nullable(uint64),
  nodes: uint64,
  calls: uint64,
  turns: uint64,
  branches: uint64,
  cost: nullable(float64),
  errors: uint64,
  error_type: maybeLabel,
  started: nullable(micros),
  ended: nullable(micros),
  _version: uint64,
});
