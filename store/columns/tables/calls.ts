import { bool, fixedString, float64, int64, maybeLabel, micros, nullable, text, uint32, uint64 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** One exchange with a model server, without its bodies. */
export const calls = table('calls', {
  ...inTrace,
  index: uint32,
  node: nullable(uint32),
  model: maybeLabel,
  endpoint: maybeLabel,
  dialect: maybeLabel,
  sampling: nullable(text),
  request_digest: nullable(text),
  finish_reason: maybeLabel,
  prompt_tokens: nullable(uint64),
  completion_tokens: nullable(uint64),
  cached_tokens: nullable(uint64),
  reasoning_tokens: nullable(uint64),
  cost: nullable(float64),
  started: nullable(micros),
  first_token: nullable(micros),
  ended: nullable(micros),
  policy_version: nullable(uint64),
  policy_version_end: nullable(uint64),
  logprobs_mode: maybeLabel,
  tokenizer_hash: maybeLabel,
  template_hash: maybeLabel,
  stream: nullable(bool),
  extends: nullable(bool),
  drift: nullable(text),
  retry_of: nullable(uint32),
  error_type: maybeLabel,
  error_status: nullable(int64),
  error_message: nullable(text),
  time: micros,
  _hash: fixedString(16),
  ...position,
});
