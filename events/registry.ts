/** The closed list of event types: which schema checks `data`, which ids the envelope must carry, which topic the event goes to. */
import type { z } from 'zod';
import type { Envelope, ScopeId } from './envelope.ts';
import { callRecorded, toolRecorded } from './call.ts';
import {
  batchCommitted, batchCut, batchLeased, batchReleased, feedCheckpointed, feedCreated, feedRewound, groupReady, sampleDropped,
} from './feed.ts'; // prettier-ignore
import { linkAdded } from './link.ts';
import { nodeAppended } from './node.ts';
import { errorRecorded, metricRecorded, noteAdded, rewardAssigned } from './reward.ts';
import { groupSealed, rolloutCancelled, rolloutEnded, rolloutStarted } from './rollout.ts';
import { retentionSet, runDeleted, runEnded, runStarted } from './run.ts';
import { traceEnded, traceStarted } from './trace.ts';
import { policyPublished, referenceScored, trainerAnnotated, trainerStepped } from './trainer.ts';

export type Topic = 'events' | 'feeds';
type Entry = { readonly schema: z.ZodType; readonly requires: readonly ScopeId[]; readonly topic: Topic };

const RUN = ['run'] as const;
const GROUP = ['run', 'group'] as const;
const ROLLOUT = ['run', 'rollout'] as const;
const TRACE = ['run', 'rollout', 'trace'] as const;
const NONE = [] as const;

export const EVENT_TYPES = {
  'run.started': { schema: runStarted, requires: RUN, topic: 'events' },
  'run.ended': { schema: runEnded, requires: RUN, topic: 'events' },
  'run.deleted': { schema: runDeleted, requires: RUN, topic: 'events' },
  'project.retention_set': { schema: retentionSet, requires: NONE, topic: 'events' },
  'rollout.started': { schema: rolloutStarted, requires: ROLLOUT, topic: 'events' },
  'rollout.ended': { schema: rolloutEnded, requires: ROLLOUT, topic: 'events' },
  'rollout.cancelled': { schema: rolloutCancelled, requires: ROLLOUT, topic: 'events' },
  'group.sealed': { schema: groupSealed, requires: GROUP, topic: 'events' },
  'trace.started': { schema: traceStarted, requires: TRACE, topic: 'events' },
  'trace.ended': { schema: traceEnded, requires: TRACE, topic: 'events' },
  'node.appended': { schema: nodeAppended, requires: TRACE, topic: 'events' },
  'call.recorded': { schema: callRecorded, requires: TRACE, topic: 'events' },
  'tool.recorded': { schema: toolRecorded, requires: TRACE, topic: 'events' },
  'link.added': { schema: linkAdded, requires: ROLLOUT, topic: 'events' },
  'reward.assigned': { schema: rewardAssigned, requires: ROLLOUT, topic: 'events' },
  'metric.recorded': { schema: metricRecorded, requires: RUN, topic: 'events' },
  'error.recorded': { schema: errorRecorded, requires: RUN, topic: 'events' },
  'note.added': { schema: noteAdded, requires: RUN, topic: 'events' },
  'policy.published': { schema: policyPublished, requires: RUN, topic: 'events' },
  'trainer.stepped': { schema: trainerStepped, requires: RUN, topic: 'events' },
  'reference.scored': { schema: referenceScored, requires: TRACE, topic: 'events' },
  'trainer.annotated': { schema: trainerAnnotated, requires: TRACE, topic: 'events' },
  'feed.created': { schema: feedCreated, requires: NONE, topic: 'feeds' },
  'group.ready': { schema: groupReady, requires: NONE, topic: 'feeds' },
  'batch.cut': { schema: batchCut, requires: NONE, topic: 'feeds' },
  'batch.leased': { schema: batchLeased, requires: NONE, topic: 'feeds' },
  'batch.committed': { schema: batchCommitted, requires: NONE, topic: 'feeds' },
  'batch.released': { schema: batchReleased, requires: NONE, topic: 'feeds' },
  'sample.dropped': { schema: sampleDropped, requires: NONE, topic: 'feeds' },
  'feed.checkpointed': { schema: feedCheckpointed, requires: NONE, topic: 'feeds' },
  'feed.rewound': { schema: feedRewound, requires: NONE, topic: 'feeds' },
} as const satisfies Record<string, Entry>;

export type EventType = keyof typeof EVENT_TYPES;
export type DataOf<T extends EventType> = z.infer<(typeof EVENT_TYPES)[T]['schema']>;

/** A checked event: narrow on `type` to get its `data`. */
export type TapedeckEvent = { [T in EventType]: Envelope & { type: T; data: DataOf<T> } }[EventType];
export type EventOf<T extends EventType> = Extract<TapedeckEvent, { type: T }>;

export function isEventType(type: string): type is EventType {
  return Object.hasOwn(EVENT_TYPES, type);
}
