/**
 * The projection: one checked event at its position -> rows. Pure and stateless: nothing but the event and its position decides the rows, so a
 * rebuild gives the same tables. The rows of `log_index`, `event_ids` and `dead_letters` are in ledger.ts: they depend on the projector's decision.
 */
import type { Block } from './block.ts';
import { projectCall, projectTool } from './call.ts';
import { projectFeed, type FeedEventType } from './feed.ts';
import { projectError, projectLink, projectMetric, projectNote, projectReward } from './judgement.ts';
import {
  projectGroupSealed, projectRolloutEnd, projectRolloutStarted, projectRun, projectTraceEnded, projectTraceStarted,
} from './lifecycle-events.ts'; // prettier-ignore
import { projectNode } from './node.ts';
import { keysOf, positionOf, type StoredOf, type StoredEvent } from './stored-event.ts';
import { projectAnnotation, projectPolicy, projectReference, projectStep } from './trainer.ts';

export function project(stored: StoredEvent, out: Block): void {
  touch(stored, out);
  switch (stored.event.type) {
    case 'node.appended':
      return projectNode(stored as StoredOf<'node.appended'>, out);
    case 'call.recorded':
      return projectCall(stored as StoredOf<'call.recorded'>, out);
    case 'tool.recorded':
      return projectTool(stored as StoredOf<'tool.recorded'>, out);
    case 'run.started':
    case 'run.ended':
      return projectRun(stored as StoredOf<'run.started' | 'run.ended'>, out);
    case 'rollout.started':
      return projectRolloutStarted(stored as StoredOf<'rollout.started'>, out);
    case 'rollout.ended':
    case 'rollout.cancelled':
      return projectRolloutEnd(stored as StoredOf<'rollout.ended' | 'rollout.cancelled'>, out);
    case 'trace.started':
      return projectTraceStarted(stored as StoredOf<'trace.started'>, out);
    case 'trace.ended':
      return projectTraceEnded(stored as StoredOf<'trace.ended'>, out);
    case 'group.sealed':
      return projectGroupSealed(stored as StoredOf<'group.sealed'>, out);
    case 'reward.assigned':
      return projectReward(stored as StoredOf<'reward.assigned'>, out);
    case 'metric.recorded':
      return projectMetric(stored as StoredOf<'metric.recorded'>, out);
    case 'error.recorded':
      return projectError(stored as StoredOf<'error.recorded'>, out);
    case 'note.added':
      return projectNote(stored as StoredOf<'note.added'>, out);
    case 'link.added':
      return projectLink(stored as StoredOf<'link.added'>, out);
    case 'policy.published':
      return projectPolicy(stored as StoredOf<'policy.published'>, out);
    case 'trainer.stepped':
      return projectStep(stored as StoredOf<'trainer.stepped'>, out);
    case 'reference.scored':
      return projectReference(stored as StoredOf<'reference.scored'>, out);
    case 'trainer.annotated':
      return projectAnnotation(stored as StoredOf<'trainer.annotated'>, out);
    case 'run.deleted':
      return projectTombstone(stored as StoredOf<'run.deleted'>, out);
    case 'project.retention_set':
      return projectRetention(stored as StoredOf<'project.retention_set'>, out);
    default:
      return projectFeed(stored as StoredOf<FeedEventType>, out);
  }
}

/** Notes what the event touches; an id that is new in this block gets a row that resolves it to its run. */
function touch(stored: StoredEvent, out: Block): void {
  const { project: tenant, run, rollout, trace } = keysOf(stored.event);
  if (stored.topic === 'feeds' || rollout === '') {
    out.touched.project(tenant);
    return;
  }
  const id = { project: tenant, run, rollout, ...positionOf(stored) };
  if (out.touched.rollout(tenant, run, rollout)) {
    out.ids.add({ ...id, kind: 'rollout', id: rollout });
    if (out.touched.run(tenant, run, id._partition)) out.ids.add({ ...id, kind: 'run', id: run, rollout: String(id._partition) });
  }
  if (trace !== '' && out.touched.trace(tenant, run, rollout, trace)) out.ids.add({ ...id, kind: 'trace', id: trace });
}

function projectTombstone(stored: StoredOf<'run.deleted'>, out: Block): void {
  const { event } = stored;
  const { project: tenant, run } = keysOf(event);
  out.tombstones.add({ project: tenant, run, ...positionOf(stored), id: event.id, reason: event.data.reason, time: event.time });
}

function projectRetention(stored: StoredOf<'project.retention_set'>, out: Block): void {
  const { event } = stored;
  out.retention.add({ project: keysOf(event).project, ...positionOf(stored), id: event.id, days: event.data.days, time: event.time });
}
