/**
 * The closed list of event types: which schema checks `data`, which ids the envelope must carry, which topic the event goes to, and what it
 * says, in a sentence (for docs/events.md).
 */
import type { z } from 'zod';
import type { Envelope, ScopeId } from './envelope.ts';
import { callRecorded, toolRecorded } from './call.ts';
import {
  batchCommitted, batchCut, batchLeased, batchReleased, feedCheckpointed, feedCreated, feedDeleted, feedRewound, groupClosed, groupReady, sampleDropped,
} from './feed.ts'; // prettier-ignore
import { linkAdded } from './link.ts';
import { nodeAppended } from './node.ts';
import { errorRecorded, metricRecorded, noteAdded, rewardAssigned } from './reward.ts';
import { groupSealed, rolloutCancelled, rolloutEnded, rolloutStarted } from './rollout.ts';
import { retentionSet, runDeleted, runEnded, runStarted } from './run.ts';
import { traceEnded, traceStarted } from './trace.ts';
import { policyPublished, referenceScored, trainerAnnotated, trainerStepped } from './trainer.ts';

export type Topic = 'events' | 'feeds';
type Entry = { readonly schema: z.ZodType; readonly requires: readonly ScopeId[]; readonly topic: Topic; readonly says: string };

const RUN = ['run'] as const;
const GROUP = ['run', 'group'] as const;
const ROLLOUT = ['run', 'rollout'] as const;
const TRACE = ['run', 'rollout', 'trace'] as const;
const NONE = [] as const;

export const EVENT_TYPES = {
  'run.started': { schema: runStarted, requires: RUN, topic: 'events', says: 'A training or eval run begins.' },
  'run.ended': { schema: runEnded, requires: RUN, topic: 'events', says: 'A run is over.' },
  'run.deleted': {
    schema: runDeleted,
    requires: RUN,
    topic: 'events',
    says: 'Tombstone: the run and everything in it is gone for ever; later events of it are refused.',
  },
  'project.retention_set': { schema: retentionSet, requires: NONE, topic: 'events', says: 'Runs older than so many days are deleted.' },
  'rollout.started': {
    schema: rolloutStarted,
    requires: ROLLOUT,
    topic: 'events',
    says: 'One attempt at one task begins, alone or as a member of a group.',
  },
  'rollout.ended': { schema: rolloutEnded, requires: ROLLOUT, topic: 'events', says: 'A rollout is over.' },
  'rollout.cancelled': { schema: rolloutCancelled, requires: ROLLOUT, topic: 'events', says: 'A rollout was given up.' },
  'group.sealed': { schema: groupSealed, requires: GROUP, topic: 'events', says: 'No more rollouts join the group.' },
  'trace.started': { schema: traceStarted, requires: TRACE, topic: 'events', says: 'An agent begins its part of a rollout.' },
  'trace.ended': { schema: traceEnded, requires: TRACE, topic: 'events', says: 'An agent has finished its part.' },
  'node.appended': {
    schema: nodeAppended,
    requires: TRACE,
    topic: 'events',
    says: 'One message of the trace graph, with the tokens the engine saw.',
  },
  'call.recorded': { schema: callRecorded, requires: TRACE, topic: 'events', says: 'One exchange with a model server, successful or not.' },
  'tool.recorded': { schema: toolRecorded, requires: TRACE, topic: 'events', says: 'One tool call that ran.' },
  'link.added': {
    schema: linkAdded,
    requires: ROLLOUT,
    topic: 'events',
    says: 'A semantic edge between two nodes; it may arrive before or after them.',
  },
  'reward.assigned': {
    schema: rewardAssigned,
    requires: ROLLOUT,
    topic: 'events',
    says: 'A named score of a rollout, trace or node. The reward of a trace is the sum of score times weight; a later event for the same name corrects an earlier one.',
  },
  'metric.recorded': { schema: metricRecorded, requires: RUN, topic: 'events', says: 'A named number that is logged, not trained on.' },
  'error.recorded': { schema: errorRecorded, requires: RUN, topic: 'events', says: 'Something went wrong.' },
  'note.added': { schema: noteAdded, requires: RUN, topic: 'events', says: 'A label or comment by a person or a program.' },
  'policy.published': { schema: policyPublished, requires: RUN, topic: 'events', says: 'New weights can be sampled from.' },
  'trainer.stepped': { schema: trainerStepped, requires: RUN, topic: 'events', says: 'The trainer made one optimizer step.' },
  'reference.scored': {
    schema: referenceScored,
    requires: TRACE,
    topic: 'events',
    says: 'Late scores of a node by a teacher, so that a replay needs no teacher.',
  },
  'trainer.annotated': {
    schema: trainerAnnotated,
    requires: TRACE,
    topic: 'events',
    says: 'What the trainer computed per token of one branch.',
  },
  'feed.created': { schema: feedCreated, requires: NONE, topic: 'feeds', says: 'A trainer feed begins with this spec.' },
  'feed.deleted': { schema: feedDeleted, requires: NONE, topic: 'feeds', says: 'A trainer feed is over; its log stays.' },
  'group.closed': {
    schema: groupClosed,
    requires: NONE,
    topic: 'feeds',
    says: 'For the feed nobody else joins the group: it waits for scores, or it is given up.',
  },
  'group.ready': { schema: groupReady, requires: NONE, topic: 'feeds', says: 'The members and rewards of a group are fixed for the feed.' },
  'batch.cut': { schema: batchCut, requires: NONE, topic: 'feeds', says: 'The rows of batch n are fixed.' },
  'batch.leased': {
    schema: batchLeased,
    requires: NONE,
    topic: 'feeds',
    says: 'A trainer holds batch n; the position of this event in the log is its fencing token.',
  },
  'batch.committed': { schema: batchCommitted, requires: NONE, topic: 'feeds', says: 'Batch n was trained.' },
  'batch.released': { schema: batchReleased, requires: NONE, topic: 'feeds', says: 'The lease on batch n was given back.' },
  'sample.dropped': { schema: sampleDropped, requires: NONE, topic: 'feeds', says: 'A row will not be trained, and why.' },
  'feed.checkpointed': { schema: feedCheckpointed, requires: NONE, topic: 'feeds', says: 'The trainer can resume from here.' },
  'feed.rewound': {
    schema: feedRewound,
    requires: NONE,
    topic: 'feeds',
    says: 'The feed goes on from an earlier batch, on a new timeline.',
  },
} as const satisfies Record<string, Entry>;

export type EventType = keyof typeof EVENT_TYPES;
export type DataOf<T extends EventType> = z.infer<(typeof EVENT_TYPES)[T]['schema']>;

/** A checked event: narrow on `type` to get its `data`. */
export type TapedeckEvent = { [T in EventType]: Envelope & { type: T; data: DataOf<T> } }[EventType];
export type EventOf<T extends EventType> = Extract<TapedeckEvent, { type: T }>;

export function isEventType(type: string): type is EventType {
  return Object.hasOwn(EVENT_TYPES, type);
}
