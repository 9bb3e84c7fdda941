import { z } from 'zod';
import { entityId, extra, nodeIndex, object } from './fields.ts';

const end = object({ trace: entityId, node: nodeIndex.nullish() });

/** A semantic edge between nodes; it may arrive before or after either end. */
export const linkAdded = object({
  from: end,
  to: end,
  type: z.enum([
    'continuation',
    'compaction_attempt',
    'compaction',
    'subagent_call',
    'subagent_return',
    'agent_message',
    'subagent_cancel',
  ]),
  extra,
});
