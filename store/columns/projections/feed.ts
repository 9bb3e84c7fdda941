/** Decisions of trainer feeds. */
import type { EventType } from '../../../events/registry.ts';
import type { ListedRow } from '../../../events/row-list.ts';
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
      out.feedEvents.add({ ...row, group: event.data.group, reason: event.data.reason });
      if (event.data.outcome === 'failed') projectGivenUp(stored as StoredOf<'group.closed'>, out);
      break;
    case 'group.ready':
      out.feedEvents.add({ ...row, group: event.data.group, reason: event.data.reason });
      break;
    case 'batch.cut': {
      const { n, batchId, algorithm, policyVersion } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId, algorithm, policy_version: policyVersion });
      projectBatch(stored as StoredOf<'batch.cut'>, out);
      break;
    }
    case 'batch.leased': {
      const { n, batchId, holder, planId, step, expires } = event.data;
      out.feedEvents.add({ ...row, n, batch_id: batchId, holder, plan_id: planId, step, expires });
      for (const { rowId, rank, microBatch, position } of stored.lists?.places ?? []) {
        out.batchPlaces.add({
          project,
          feed,
          timeline,
          ...positionOf(stored),
          n,
          plan_id: planId,
          row_id: rowId,
          rank,
          micro_batch: microBatch,
          position,
        });
      }
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

/** The rows of a batch, and what it left out. */
function projectBatch(stored: StoredOf<'batch.cut'>, out: Block): void {
  const { event, lists } = stored;
  const { project } = keysOf(event);
  const { feed, timeline, n, batchId } = event.data;
  const at = positionOf(stored);
  for (const row of lists?.rows ?? []) {
    const {
      rowId,
      run,
      rollout,
      trace,
      leaf,
      group,
      env,
      seqLen,
      lossMask,
      advantage,
      reward,
      policyVersionMin,
      policyVersionMax,
      staleness,
    } = row;
    out.batchRows.add({
      project, feed, timeline, ...at, n, row_id: rowId, batch_id: batchId, run: run ?? '', rollout, trace, leaf, group, env, seq_len: seqLen,
      trained: lossMask.reduce((sum, bit) => sum + bit, 0),
      advantage: typeof advantage === 'number' ? advantage : null,
      weights: weightsOf(row),
      reward, policy_version_min: policyVersionMin, policy_version_max: policyVersionMax, staleness,
    }); // prettier-ignore
  }
  for (const [item, excluded] of (lists?.excluded ?? []).entries()) {
    const { run, group, rollout, trace, leaf, reason, message, staleness, length } = excluded;
    out.droppedSamples.add({
      project, feed, timeline, ...at, run: run ?? '', rollout: rollout ?? '', trace: trace ?? '', _leaf: leaf ?? NO_NODE, _item: item, id: event.id, n, batch_id: batchId, group,
      reason, message, staleness, length, extra: null, time: event.time,
    }); // prettier-ignore
  }
}

/** How many tokens take part in each component, and the sums of their weights, as JSON text. A stream that is absent has no sum. */
function weightsOf({ members, rlWeights, ceWeights, refKlWeights }: ListedRow): string {
  const sum = (stream: Float32Array | null): number | undefined => stream?.reduce((total, weight) => total + weight, 0);
  return JSON.stringify({ members, rl: sum(rlWeights), ce: sum(ceWeights), refKl: sum(refKlWeights) });
}

/** The rollouts of a group that is given up. A long list of them lies in the blob store and has no rows here. */
function projectGivenUp(stored: StoredOf<'group.closed'>, out: Block): void {
  const { event } = stored;
  const { project, run } = keysOf(event);
  const { feed, timeline, group, reason, rollouts } = event.data;
  if (!Array.isArray(rollouts)) return;
  for (const [item, { rollout, length }] of (rollouts as { rollout: string; length?: number | null }[]).entries()) {
    out.droppedSamples.add({
      project, feed, timeline, ...positionOf(stored), run, rollout, trace: '', _leaf: NO_NODE, _item: item, id: event.id, n: null, batch_id: null, group,
      reason, message: null, staleness: null, length, extra: null, time: event.time,
    }); // prettier-ignore
  }
}

function projectDropped(stored: StoredOf<'sample.dropped'>, out: Block): void {
  const { event } = stored;
  const { feed, timeline, n, run, group, rollout, trace, leaf, reason, staleness, length, extra } = event.data;
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
    _item: 0,
    id: event.id,
    n,
    batch_id: null,
    group,
    reason,
    message: null,
    staleness,
    length,
    extra: jsonText(extra),
    time: event.time,
  });
}
