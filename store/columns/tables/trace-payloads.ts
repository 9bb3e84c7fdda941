import { label, text } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** The whole data of a trace event as JSON: agent config, runtime, tool schemas, timing, extra. */
export const tracePayloads = table('trace_payloads', {
  ...inTrace,
  type: label,
  data: text,
  ...position,
});
