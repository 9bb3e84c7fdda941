import { label, text } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { inRollout, position } from './shared-columns.ts';

/** The whole data of a rollout event as JSON: task data, env arguments, timing, extra. */
export const rolloutPayloads = table('rollout_payloads', {
  ...inRollout,
  type: label,
  data: text,
  ...position,
});
