/** Rewards, metrics, errors, notes and links: what is said about entities. */
import type { TapedeckEvent } from '../../../events/registry.ts';
import type { Block } from './block.ts';
import { jsonText } from './json-text.ts';
import { NO_NODE } from './position.ts';
import { keysOf, positionOf, type StoredOf, type StoredEvent } from './stored-event.ts';

export function projectReward(stored: StoredOf<'reward.assigned'>, out: Block): void {
  const { event } = stored;
  const { data } = event;
  const { project, run, rollout, trace } = keysOf(event);
  out.rewardEvents.add({
    project,
    run,
    rollout,
    ...positionOf(stored),
    scope: data.scope,
    trace: data.scope === 'rollout' ? '' : trace,
    _node: data.scope === 'node' ? (data.node ?? NO_NODE) : NO_NODE,
    name: data.name,
    group: event.group,
    id: event.id,
    score: data.score,
    weight: data.weight,
    source_kind: data.source?.kind,
    source_name: data.source?.name,
    source_version: data.source?.version,
    supersedes: data.supersedes,
    extra: jsonText(data.extra),
    time: event.time,
  });
}

/** The ids that name the entity of a scope; ids below it are empty, so that the latest value is found whatever else the envelope says. */
function entityOf(event: TapedeckEvent, scope: string, node: number | null | undefined) {
  const { project, run, rollout, trace } = keysOf(event);
  const below = scope === 'rollout' ? 1 : scope === 'trace' || scope === 'node' ? 2 : 0;
  return {
    project,
    run,
    group: scope === 'run' ? '' : (event.group ?? ''),
    rollout: below >= 1 ? rollout : '',
    trace: below >= 2 ? trace : '',
    _node: scope === 'node' ? (node ?? NO_NODE) : NO_NODE,
  };
}

export function projectMetric(stored: StoredOf<'metric.recorded'>, out: Block): void {
  const { event } = stored;
  const { scope, name, value, node, extra } = event.data;
  const row = { ...entityOf(event, scope, node), ...positionOf(stored), id: event.id, time: event.time };
  out.metricEvents.add({ ...row, scope, name, value, extra: jsonText(extra) });
}

export function projectError(stored: StoredOf<'error.recorded'>, out: Block): void {
  const { data } = stored.event;
  out.errors.add({
    ...factOf(stored),
    scope: data.scope,
    node: data.node,
    type: data.type,
    message: data.message,
    status_code: data.statusCode,
    traceback: data.traceback,
    extra: jsonText(data.extra),
  });
}

export function projectNote(stored: StoredOf<'note.added'>, out: Block): void {
  const { scope, node, label, text, author, extra } = stored.event.data;
  out.notes.add({ ...factOf(stored), scope, node, label, text, author, extra: jsonText(extra) });
}

function factOf(stored: StoredEvent) {
  const { event } = stored;
  return { ...keysOf(event), ...positionOf(stored), group: event.group ?? '', id: event.id, time: event.time };
}

export function projectLink(stored: StoredOf<'link.added'>, out: Block): void {
  const { event } = stored;
  const { from, to, type, extra } = event.data;
  const { project, run, rollout } = keysOf(event);
  out.links.add({
    project,
    run,
    rollout,
    ...positionOf(stored),
    from_trace: from.trace,
    _from_node: from.node ?? NO_NODE,
    to_trace: to.trace,
    _to_node: to.node ?? NO_NODE,
    type,
    extra: jsonText(extra),
    time: event.time,
  });
}
