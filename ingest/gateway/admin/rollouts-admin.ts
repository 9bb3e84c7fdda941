/** Making and ending rollouts, their traces, and the keys of runs: what the admin routes do, without HTTP. */
import { createHash } from 'node:crypto';
import { TapedeckError } from '../../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { partitionOf } from '../../../store/log/partitioner.ts';
import { inTurn, storePending } from '../calls/finish.ts';
import { Stopped } from '../calls/stopped.ts';
import { mintKey, type KeyClaims } from '../keys.ts';
import { appendDrafts } from '../record/append.ts';
import { callSettingsOf, storedSettings } from '../traces/settings.ts';
import { newRollout, newTrace, type Place, type RolloutState } from '../traces/state.ts';
import { rolloutEnded, rolloutStarted, runKeyNote, traceStarted } from './drafts.ts';
import type { EndRollout, NewRollout, NewTrace, RunKeyRequest } from './requests.ts';
import type { SessionPorts } from './sessions.ts';

export type AdminPorts = SessionPorts & {
  readonly secret: Uint8Array;
  /** Where a rollout that is not in memory begins, or an offset before that; null when nobody knows it. */
  readonly locate: (project: string, rollout: string, partition: number) => Promise<number | null>;
};

export type MadeKey = { readonly key: string; readonly expires: number };
export type MadeTrace = MadeKey & { readonly rollout: string; readonly trace: string };
export type Ended = {
  readonly rollout: string;
  readonly ok: boolean | null;
  readonly stopCondition: string | null;
  readonly traces: Record<string, { nodes: number; calls: number }>;
};

export type RolloutsAdmin = {
  start(request: NewRollout): Promise<MadeTrace>;
  addTrace(rollout: string, request: NewTrace, claims: KeyClaims | null): Promise<MadeTrace>;
  end(rollout: string, request: EndRollout, claims: KeyClaims | null): Promise<Ended>;
  runKey(run: string, request: RunKeyRequest): Promise<MadeKey>;
};

export function createRolloutsAdmin(ports: AdminPorts): RolloutsAdmin {
  const { rollouts, append, newId, secret, log } = ports;
  const { clock } = append.accept;
  const endDigests = new WeakMap<RolloutState, string>();

  const endOf = async (partition: number): Promise<number> => (await log.positions())[partition]?.end ?? 0;
  const expiry = (seconds: number): number => Math.ceil(clock.nowMicros() / 1e6) + seconds;

  const keyFor = (state: RolloutState, trace: string, expiresIn: number): MadeTrace => {
    const { project, run, rollout } = state.scope;
    const { partition, offset } = state.place;
    const expires = expiry(expiresIn);
    return { rollout, trace, expires, key: mintKey(secret, { kind: 'rollout', project, run, rollout, trace, partition, offset, expires }) };
  };

  /** Held for the caller. */
  const openRollout = async (project: string, rollout: string, claims: KeyClaims | null): Promise<RolloutState> => {
    const known = rollouts.get(project, rollout);
    const found = known !== null && 'traces' in known ? known : await openPlace(known ?? (await placeOf(project, rollout, claims)));
    if (found === null) throw unknownRollout(rollout);
    if (claims === null || claims.run === found.scope.run) return found;
    rollouts.release(found);
    throw new TapedeckError('forbidden', `the key is for the run ${claims.run}, and rollout ${rollout} is of another one`);
  };
  const openPlace = async (place: Place | null): Promise<RolloutState | null> => (place === null ? null : rollouts.open(place));
  const placeOf = async (project: string, rollout: string, claims: KeyClaims | null): Promise<Place | null> => {
    const partition = partitionOf(rollout, log.partitions);
    if (claims?.kind === 'rollout' && claims.rollout === rollout && claims.project === project)
      return { project, rollout, partition, offset: claims.offset };
    const offset = await ports.locate(project, rollout, partition);
    return offset === null ? null : { project, rollout, partition, offset };
  };

  return {
    async start(request) {
      const project = request.project ?? DEFAULT_PROJECT;
      const rollout = request.rollout ?? newId();
      const trace = request.trace ?? newId();
      if (request.rollout !== undefined) await refuseKnown(project, rollout, ports);
      const scope = { project, run: request.run, group: request.group?.id, rollout };
      const time = clock.nowMicros();
      const partition = partitionOf(rollout, log.partitions);
      const offset = await endOf(partition);
      const drafts = [rolloutStarted(request, scope, time, newId), traceStarted(request, { ...scope, trace }, time, newId)];
      await appendDrafts(drafts, append);
      const state = newRollout({ project, rollout, partition, offset }, scope, time);
      newTrace(state, trace, callSettingsOf(storedSettings(request)), time);
      rollouts.release(rollouts.add(state));
      return keyFor(state, trace, request.expiresIn);
    },

    async addTrace(rollout, request, claims) {
      const state = await openRollout(projectFor(rollout, request, claims), rollout, claims);
      try {
        if (state.ended !== null) throw new TapedeckError('rollout_ended', `rollout ${rollout} was ended; start another one`);
        const trace = request.trace ?? newId();
        if (state.traces.has(trace))
          throw new TapedeckError('rollout_exists', `rollout ${rollout} has a trace ${trace} already; choose another id, or none`);
        const time = clock.nowMicros();
        await appendDrafts([traceStarted(request, { ...state.scope, trace }, time, newId)], append);
        newTrace(state, trace, callSettingsOf(storedSettings(request)), time);
        return keyFor(state, trace, request.expiresIn);
      } finally {
        rollouts.release(state);
      }
    },

    async end(rollout, request, claims) {
      const state = await openRollout(projectFor(rollout, request, claims), rollout, claims);
      const digest = createHash('sha256').update(JSON.stringify(request)).digest('hex');
      try {
        if (state.ended !== null) {
          if (request.rewards.length > 0 && endDigests.get(state) !== digest)
            throw new TapedeckError('rollout_ended', `rollout ${rollout} was ended before; send rewards as events`);
          return endedOf(state);
        }
        checkRewards(state, request);
        await endRollout(state, request, ports);
        endDigests.set(state, digest);
        return endedOf(state);
      } finally {
        rollouts.release(state);
      }
    },

    async runKey(run, request) {
      const project = request.project ?? DEFAULT_PROJECT;
      const grant = newId();
      const partition = partitionOf(run, log.partitions);
      const positions = (await log.positions()).map(({ end }) => end);
      await appendDrafts([runKeyNote(grant, request, { project, run }, clock.nowMicros(), positions)], append);
      const expires = expiry(request.expiresIn);
      const offset = positions[partition] as number;
      return { expires, key: mintKey(secret, { kind: 'run', project, run, grant, partition, offset, expires }) };
    },
  };
}

/** The key of a rollout or run does for that rollout or run, in its own project. */
function projectFor(rollout: string, request: { readonly project?: string | undefined }, claims: KeyClaims | null): string {
  if (claims === null) return request.project ?? DEFAULT_PROJECT;
  if (request.project !== undefined && request.project !== claims.project)
    throw new TapedeckError('forbidden', `the key is for the project "${claims.project}": leave project out`);
  if (claims.kind === 'rollout' && claims.rollout !== rollout)
    throw new TapedeckError('forbidden', `the key is for the rollout ${claims.rollout}, not for ${rollout}`);
  return claims.project;
}

function unknownRollout(rollout: string): TapedeckError {
  return new TapedeckError('not_found', `rollout ${rollout} is not known here; send one of its keys as Authorization: Bearer`);
}

/** An id that the caller chose: only what is in memory, or in the tables, can be noticed. */
async function refuseKnown(project: string, rollout: string, ports: AdminPorts): Promise<void> {
  const known = ports.rollouts.get(project, rollout);
  if (known === null) return;
  if ('traces' in known) ports.rollouts.release(known);
  throw new TapedeckError('rollout_exists', `there is a rollout ${rollout} already; choose another id, or none`);
}

/** Calls under way are cancelled and recorded; then the end becomes durable, and only then is it one. New calls are refused from the first moment. */
async function endRollout(state: RolloutState, request: EndRollout, ports: AdminPorts): Promise<void> {
  const { append, newId } = ports;
  const time = append.accept.clock.nowMicros();
  state.ended = { ok: request.ok, stopCondition: request.stopCondition ?? null, time };
  try {
    const traces = [...state.traces.values()];
    for (const trace of traces)
      for (const stop of trace.inFlight) stop(new Stopped('rollout_ended', 'the rollout was ended while the call ran'));
    while (traces.some((trace) => trace.inFlight.size > 0)) await append.accept.clock.sleep(5);
    for (const trace of traces) await inTurn(trace, () => storePending(trace, ports));
    const drafts = rolloutEnded(state, request, append.accept.clock.nowMicros(), newId);
    await appendDrafts(drafts, append);
    const stop = traces.find((trace) => trace.stop !== null)?.stop ?? null;
    state.ended = { ok: request.ok, stopCondition: request.stopCondition ?? stop, time };
    for (const trace of traces) trace.ended ??= { ok: request.ok, stopCondition: request.stopCondition ?? trace.stop, time };
  } catch (error) {
    state.ended = null;
    throw error;
  }
}

function checkRewards(state: RolloutState, request: EndRollout): void {
  for (const [i, { scope, trace, node }] of request.rewards.entries()) {
    if (scope === 'node' && node === undefined)
      throw new TapedeckError('bad_request', `rewards.${i}.node: scope node needs the index of the node`);
    if (scope === 'rollout') continue;
    if (trace === undefined && state.traces.size !== 1)
      throw new TapedeckError('bad_request', `rewards.${i}.trace: the rollout has ${state.traces.size} traces; name one`);
    if (trace !== undefined && !state.traces.has(trace))
      throw new TapedeckError('bad_request', `rewards.${i}.trace: the rollout has no trace ${trace}`);
  }
}

function endedOf(state: RolloutState): Ended {
  const traces = Object.fromEntries([...state.traces].map(([id, trace]) => [id, { nodes: trace.graph.count, calls: trace.calls }]));
  return { rollout: state.scope.rollout, ok: state.ended?.ok ?? null, stopCondition: state.ended?.stopCondition ?? null, traces };
}
