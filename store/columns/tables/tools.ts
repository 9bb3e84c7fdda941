import { fixedString, int64, label, maybeLabel, micros, nullable, text, uint32 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** One run of a tool. Ids of tool calls repeat in some harnesses, so the node of the call is part of the key (4294967295 = not given). */
export const tools = table('tools', {
  ...inTrace,
  tool_call_id: text,
  _node: uint32,
  name: label,
  result_node: nullable(uint32),
  started: nullable(micros),
  ended: nullable(micros),
  error_type: maybeLabel,
  error_status: nullable(int64),
  error: nullable(text),
  extra: nullable(text),
  time: micros,
  _hash: fixedString(16),
  ...position,
});
