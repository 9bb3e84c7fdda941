/** The events that begin and end what the gateway records. Pure. */
import type { Draft, Scope } from '../record/draft.ts';
import { storedSettings, type TraceSettings } from '../traces/settings.ts';
import type { RolloutState, TraceState } from '../traces/state.ts';
import type { EndRollout, NewRollout, RunKeyRequest } from './requests.ts';

export type NewId = () => string;

export function rolloutStarted(request: NewRollout, scope: Scope, time: number, newId: NewId): Draft {
  const { env, task, group, work, policyVersion, attempt, parentRollout, forkNode, extra } = request;
  const data = {
    env,
    task,
    group,
    work,
    policyVersion,
    attempt,
    parentRollout,
    forkNode,
    started: time,
    extra: { ...extra, gateway: storedSettings(request) },
  };
  return { id: newId(), type: 'rollout.started', scope, time, data };
}

export function traceStarted(
  settings: TraceSettings,
  scope: Scope,
  time: number,
  newId: NewId,
  more: Readonly<Record<string, unknown>> = {},
): Draft {
  const { agent = {}, model, runtime } = settings;
  const data = {
    agent: { ...agent, ...(agent.model === undefined && model !== undefined && { model }) },
    runtime,
    started: time,
    ...more,
    extra: { gateway: storedSettings(settings) },
  };
  return { id: newId(), type: 'trace.started', scope, time, data };
}

/** The label of the note that holds what a run key stands for. */
export const RUN_KEY_LABEL = 'gateway.run_key';

/** `positions`: the ends of all partitions when the key was made; its sessions begin behind them. */
export function runKeyNote(id: string, request: RunKeyRequest, scope: Scope, time: number, positions: readonly number[]): Draft {
  const { agent, runtime, env, work } = request;
  const grant = { ...storedSettings(request), agent, runtime, env, work, positions };
  const text = 'a key of the gateway for the sessions of this run was made';
  return { id, type: 'note.added', scope, time, data: { scope: 'run', label: RUN_KEY_LABEL, text, extra: { gateway: grant } } };
}

/** A session of a run key: the capture of a trace that its own program records too, under the session's id. */
export function sessionStarted(
  session: { readonly settings: TraceSettings; readonly env?: unknown; readonly work?: unknown },
  name: string,
  scope: Scope,
  time: number,
  newId: NewId,
): Draft[] {
  const { settings, env, work } = session;
  const rollout: Draft = {
    id: newId(),
    type: 'rollout.started',
    scope: { ...scope, trace: undefined },
    time,
    data: { env, work, started: time, mirrorOf: name, extra: { gateway: { ...storedSettings(settings), session: name } } },
  };
  return [rollout, traceStarted(settings, scope, time, newId, { mirrorOf: name })];
}

/** Rewards, the end of every trace that is not over, and the end of the rollout, with counts. */
export function rolloutEnded(rollout: RolloutState, request: EndRollout, time: number, newId: NewId): Draft[] {
  const traces = [...rollout.traces.values()];
  const drafts: Draft[] = request.rewards.map((reward) => rewardDraft(rollout, reward, time, newId));
  const stop = request.stopCondition ?? traces.find((trace) => trace.stop !== null)?.stop ?? undefined;
  for (const trace of traces) {
    if (trace.ended === null) drafts.push(traceEnded(trace, request.ok, request.stopCondition ?? trace.stop ?? undefined, time, newId));
  }
  const counts = { traces: traces.length };
  const data = { ok: request.ok, stopCondition: stop, counts, started: rollout.started, ended: time };
  drafts.push({ id: newId(), type: 'rollout.ended', scope: rollout.scope, time, data });
  return drafts;
}

function traceEnded(trace: TraceState, ok: boolean | null, stopCondition: string | undefined, time: number, newId: NewId): Draft {
  const counts = { nodes: trace.graph.count, calls: trace.calls };
  return {
    id: newId(),
    type: 'trace.ended',
    scope: trace.scope,
    time,
    data: { ok, stopCondition, counts, started: trace.started, ended: time },
  };
}

function rewardDraft(rollout: RolloutState, reward: EndRollout['rewards'][number], time: number, newId: NewId): Draft {
  const { scope: about, trace, node, name, score, weight, source } = reward;
  const only = rollout.traces.size === 1 ? [...rollout.traces.keys()][0] : undefined;
  const scope = about === 'rollout' ? rollout.scope : { ...rollout.scope, trace: trace ?? only };
  return { id: newId(), type: 'reward.assigned', scope, time, data: { scope: about, node, name, score, weight, source } };
}
