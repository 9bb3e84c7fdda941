/** Decisions of trainer feeds. */
import type { EventType } from '../../../events/registry.ts';
import type { Block } from './block.ts';
import { jsonText } from './json-text.ts';
import { NO_NODE } from './position.ts';
import { keysOf, positionOf, type StoredOf } from './stored-event.ts';

export type FeedEventType = Extract<EventType, `feed.${string}` | `batch.${string}` | 'group.ready' | 'group.closed' | 'sample.dropped'>;

export function projectFeed(stored: StoredOf<FeedEventType>, out: Block): void {
  const { event } = stored;
  const { project, run } = keysOf(event);
  const { feed, timeline } = event.data;
  const row = {
    project,
    run,
    feed,
    timeline,
    ...positionOf(stored),
    id: event.id,
    type: event.type,
    time: event.time,
    data: jsonText(event.data) ?? '',
  };
  switch (event.type) {
    case 'feed.created':
      out.feedEvents.add(row);
      break;
    case 'feed.deleted':
      out.feedEvents.add({ ...row, reason: event.data.reason });
      break;
    case 'group.closed':
    case 'group.ready':
      out.feedEvents.add({ ...row, group: event.data.group, reason: event.data.reason });
      break;
    case 'batch.cut': {
      const { n, batchId, algorithm, policyVersion } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId, algorithm, policy_version: policyVersion });
      break;
    }
    case 'batch.leased': {
      const { n, batchId, holder, planId, step, expires } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId, holder, plan_id: planId, step, expires });
      break;
    }
    case 'batch.committed': {
      const { n, batchId, holder, step } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId, holder, step });
      break;
    }
    case 'batch.released': {
      const { n, batchId, holder, reason } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId, holder, reason });
      break;
    }
    case 'feed.checkpointed': {
      const { n, batchId } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId });
      break;
    }
    case 'feed.rewound':
      out.feedEvents.add({ ...row, rewound_from: event.data.from, rewound_to: event.data.to, mode: event.data.mode });
      break;
    case 'sample.dropped':
      out.feedEvents.add({ ...row, n: event.data.n, reason: event.data.reason });
      projectDropped(stored as StoredOf<'sample.dropped'>, out);
      break;
  }
}

function projectDropped(stored: StoredOf<'sample.dropped'>, out: Block): void {
  const { event } = stored;
  const { feed, timeline, n, run, rollout, trace, leaf, reason, staleness, length, extra } = event.data;
  const keys = keysOf(event);
  out.droppedSamples.add({
    project: keys.project,
    feed,
    timeline,
    run: run ?? keys.run,
    rollout,
    trace: trace ?? '',
    _leaf: leaf ?? NO_NODE,
    ...positionOf(stored),
    id: event.id,
    n,
    reason,
    staleness,
    length,
    extra: jsonText(extra),
    time: event.time,
  });
}
