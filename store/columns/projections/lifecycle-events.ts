/** Starts and ends of runs, groups, rollouts and traces: one row per event, reduced by the views and summaries. */
import type { Block } from './block.ts';
import { jsonText } from './json-text.ts';
import { keysOf, positionOf, type StoredEvent, type StoredOf } from './stored-event.ts';

export function projectRun(stored: StoredOf<'run.started' | 'run.ended'>, out: Block): void {
  const { event } = stored;
  const { project, run } = keysOf(event);
  const row = { project, run, ...positionOf(stored), id: event.id, type: event.type, time: event.time, extra: jsonText(event.data.extra) };
  if (event.type === 'run.started') {
    const { kind, name, model, config, envs, tags } = event.data;
    out.runEvents.add({ ...row, kind, name, model, config: jsonText(config), envs: jsonText(envs), tags: jsonText(tags) });
  } else {
    const { status, ended, metrics } = event.data;
    out.runEvents.add({ ...row, status, ended, metrics: jsonText(metrics) });
  }
}

export function projectRolloutStarted(stored: StoredOf<'rollout.started'>, out: Block): void {
  const { event } = stored;
  const { data } = event;
  const { project, run, rollout } = keysOf(event);
  const shared = { project, run, rollout, ...positionOf(stored), id: event.id, type: event.type, time: event.time };
  const group = data.group?.id ?? event.group;
  out.rolloutEvents.add({
    ...shared,
    group,
    env: data.env?.id,
    env_name: data.env?.name,
    task_type: data.task?.type,
    task_key: data.task?.key,
    task_hash: data.task?.hash,
    work_type: data.work?.type,
    step: data.work?.step,
    policy_version: data.policyVersion,
    policy_version_end: data.policyVersionEnd,
    attempt: data.attempt,
    parent_rollout: data.parentRollout,
    fork_trace: data.forkNode?.trace,
    fork_node: data.forkNode?.index,
    mirror_of: data.mirrorOf,
    started: data.started,
  });
  if (typeof data.mirrorOf === 'string') out.ids.add(mirrorRow(stored, 'rollout_mirror', data.mirrorOf));
  out.rolloutPayloads.add({ project, run, rollout, ...positionOf(stored), type: event.type, data: jsonText(data) ?? '' });
  if (group !== undefined) {
    out.groupEvents.add({ ...shared, group, size: data.group?.size, env: data.env?.id, task_key: data.task?.key });
    out.ids.add({ project, kind: 'group', id: group, run, rollout: '', ...positionOf(stored) });
  }
}

export function projectRolloutEnd(stored: StoredOf<'rollout.ended' | 'rollout.cancelled'>, out: Block): void {
  const { event } = stored;
  const { project, run, rollout } = keysOf(event);
  const key = { project, run, rollout, ...positionOf(stored) };
  const row = { ...key, id: event.id, type: event.type, time: event.time, group: event.group };
  if (event.type === 'rollout.ended') {
    const { ok, stopCondition, counts, started, ended } = event.data;
    out.rolloutEvents.add({ ...row, ok, stop_condition: stopCondition, traces: counts?.traces, started, ended });
  } else {
    out.rolloutEvents.add({ ...row, cancelled: event.data.reason });
  }
  out.rolloutPayloads.add({ ...key, type: event.type, data: jsonText(event.data) ?? '' });
}

export function projectTraceStarted(stored: StoredOf<'trace.started'>, out: Block): void {
  const { event } = stored;
  const { agent, mirrorOf, started } = event.data;
  const key = { ...keysOf(event), ...positionOf(stored) };
  const row = { ...key, id: event.id, type: event.type, time: event.time };
  out.traceEvents.add({ ...row, agent: agent.name, model: agent.model, trainable: agent.trainable, mirror_of: mirrorOf, started });
  if (typeof mirrorOf === 'string') out.ids.add(mirrorRow(stored, 'trace_mirror', mirrorOf));
  out.tracePayloads.add({ ...key, type: event.type, data: jsonText(event.data) ?? '' });
}

/** A row by which the views find a mirror from the id of its original. */
function mirrorRow(stored: StoredEvent, kind: 'rollout_mirror' | 'trace_mirror', id: string) {
  const { project, run, rollout } = keysOf(stored.event);
  return { project, kind, id, run, rollout, ...positionOf(stored) };
}

export function projectTraceEnded(stored: StoredOf<'trace.ended'>, out: Block): void {
  const { event } = stored;
  const { ok, stopCondition, truncated, counts, started, ended } = event.data;
  const key = { ...keysOf(event), ...positionOf(stored) };
  const row = { ...key, id: event.id, type: event.type, time: event.time };
  out.traceEvents.add({ ...row, ok, stop_condition: stopCondition, truncated, nodes: counts?.nodes, calls: counts?.calls, started, ended });
  out.tracePayloads.add({ ...key, type: event.type, data: jsonText(event.data) ?? '' });
}

export function projectGroupSealed(stored: StoredOf<'group.sealed'>, out: Block): void {
  const { event } = stored;
  const { project, run } = keysOf(event);
  const group = event.group ?? '';
  const { size, reason, extra } = event.data;
  const row = { project, run, group, rollout: '', ...positionOf(stored), id: event.id, type: event.type, time: event.time };
  out.groupEvents.add({ ...row, sealed_size: size, sealed: event.time === 0 ? null : event.time, reason, extra: jsonText(extra) });
  out.ids.add({ project, kind: 'group', id: group, run, rollout: '', ...positionOf(stored) });
}
