import { text, uint32 } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inTrace, position } from './shared-columns.ts';

/** The whole data of a call as JSON: request, response, extra. */
export const callPayloads = table('call_payloads', {
  ...inTrace,
  index: uint32,
  data: text,
  ...position,
});
