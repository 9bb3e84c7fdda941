/** Keys turned into traces: what a rollout key names, and the sessions of a run key, which begin when they are first seen. */
import type { IncomingHttpHeaders } from 'node:http';
import { TapedeckError } from '../../../base/errors.ts';
import { MAX_ID_BYTES } from '../../../events/fields.ts';
import { readEvent } from '../../../events/read-event.ts';
import type { EventLog } from '../../../store/log/event-log.ts';
import { partitionOf } from '../../../store/log/partitioner.ts';
import type { KeyClaims } from '../keys.ts';
import { appendDrafts, type AppendOptions } from '../record/append.ts';
import type { Rollouts } from '../traces/rollouts.ts';
import { callSettingsOf, traceSettingsSchema, type TraceSettings } from '../traces/settings.ts';
import { newRollout, newTrace, type RolloutState, type TraceState } from '../traces/state.ts';
import { RUN_KEY_LABEL, sessionStarted } from './drafts.ts';
import { runtimeOf } from './harness-name.ts';

export type SessionPorts = {
  readonly log: EventLog;
  readonly rollouts: Rollouts;
  readonly append: AppendOptions;
  readonly newId: () => string;
};

export type Sessions = {
  /** The trace of a request, held until its rollout is released. Errors: `unauthorized` (nothing stands behind the key), `bad_request` (no session named). */
  traceOf(claims: KeyClaims, headers: IncomingHttpHeaders): Promise<TraceState>;
};

/** What a run key stands for. */
type Grant = { readonly settings: TraceSettings; readonly env: unknown; readonly work: unknown; readonly positions: readonly number[] };

const SESSION_HEADER = 'x-session-id';
/** The capture of a session is a trace of its own. */
export const WIRE_PREFIX = 'wire:';
const READ_BYTES = 1024 * 1024;
const MAX_GRANTS = 10_000;

export function createSessions(ports: SessionPorts): Sessions {
  const grants = new Map<string, Promise<Grant>>();
  const beginning = new Map<string, Promise<RolloutState>>();

  const grantOf = (claims: KeyClaims & { kind: 'run' }): Promise<Grant> => {
    const known = grants.get(claims.grant);
    if (known !== undefined) return known;
    const read = readGrant(claims, ports.log);
    grants.set(claims.grant, read);
    if (grants.size > MAX_GRANTS) grants.delete(grants.keys().next().value as string);
    read.catch(() => grants.delete(claims.grant));
    return read;
  };

  const sessionTrace = async (claims: KeyClaims & { kind: 'run' }, headers: IncomingHttpHeaders): Promise<TraceState> => {
    const name = headers[SESSION_HEADER];
    if (typeof name !== 'string' || name === '') {
      throw new TapedeckError('bad_request', 'this key serves a whole run: name the trace in the header X-Session-ID');
    }
    const id = WIRE_PREFIX + name;
    if (Buffer.byteLength(id) > MAX_ID_BYTES) {
      throw new TapedeckError('bad_request', `X-Session-ID must have at most ${MAX_ID_BYTES - WIRE_PREFIX.length} bytes`);
    }
    const { project } = claims;
    for (;;) {
      const other = beginning.get(`${project}/${id}`);
      if (other !== undefined) await other.catch(() => {});
      const known = ports.rollouts.get(project, id);
      if (known !== null && 'traces' in known) return traceIn(known, id, ports);
      if (beginning.has(`${project}/${id}`)) continue;
      const work = findOrBegin(claims, name, await grantOf(claims), headers, ports);
      beginning.set(`${project}/${id}`, work);
      try {
        return traceIn(await work, id, ports);
      } finally {
        beginning.delete(`${project}/${id}`);
      }
    }
  };

  return {
    async traceOf(claims, headers) {
      if (claims.kind === 'run') return sessionTrace(claims, headers);
      const { project, rollout, partition, offset, trace } = claims;
      const found = await ports.rollouts.open({ project, rollout, partition, offset });
      if (found === null) throw new TapedeckError('unauthorized', 'the rollout of this key is not in this log');
      return traceIn(found, trace, ports);
    },
  };
}

function traceIn(rollout: RolloutState, id: string, { rollouts }: SessionPorts): TraceState {
  const trace = rollout.traces.get(id);
  if (trace !== undefined) return trace;
  rollouts.release(rollout);
  throw new TapedeckError('unauthorized', 'the trace of this key is not in this log');
}

/** Held for the caller. */
async function findOrBegin(
  claims: KeyClaims & { kind: 'run' },
  session: string,
  grant: Grant,
  headers: IncomingHttpHeaders,
  ports: SessionPorts,
): Promise<RolloutState> {
  const { project, run } = claims;
  const id = WIRE_PREFIX + session;
  const partition = partitionOf(id, ports.log.partitions);
  const found = await ports.rollouts.find({ project, rollout: id, partition, offset: grant.positions[partition] ?? 0 });
  if (found !== null) return found;
  const { clock } = ports.append.accept;
  const time = clock.nowMicros();
  const scope = { project, run, rollout: id };
  const offset = (await ports.log.positions())[partition]?.end ?? 0;
  // its first request says who it is; what the key was made with counts more
  const runtime = { ...runtimeOf(headers), ...grant.settings.runtime };
  const settings = { ...grant.settings, ...(Object.keys(runtime).length > 0 && { runtime }) };
  await appendDrafts(sessionStarted({ ...grant, settings }, session, { ...scope, trace: id }, time, ports.newId), ports.append);
  const rollout = newRollout({ project, rollout: id, partition, offset }, scope, time);
  newTrace(rollout, id, callSettingsOf(grant.settings), time);
  return ports.rollouts.add(rollout);
}

/** The note that the key was made with, found behind the key's offset. */
async function readGrant(claims: KeyClaims & { kind: 'run' }, log: EventLog): Promise<Grant> {
  const { partition, offset, grant } = claims;
  const end = (await log.positions())[partition]?.end ?? 0;
  for (let at = offset; at < end;) {
    const chunk = await log.read(partition, at, { maxBytes: READ_BYTES });
    for (const { value } of chunk.records) {
      if (!Buffer.from(value.buffer, value.byteOffset, value.byteLength).includes(RUN_KEY_LABEL)) continue;
      const event = readEvent(value);
      if (event.ok && event.value.id === grant && event.value.type === 'note.added') return grantIn(event.value.data.extra?.['gateway']);
    }
    at = chunk.next;
  }
  throw new TapedeckError('unauthorized', 'this key is not in this log');
}

function grantIn(value: unknown): Grant {
  const given = (value ?? {}) as Record<string, unknown>;
  const { model, upstream, sampling, limits, agent, runtime, env, work, positions } = given;
  const settings = traceSettingsSchema.safeParse({ model, upstream, sampling, limits, agent, runtime });
  return {
    settings: settings.success ? settings.data : {},
    env,
    work,
    positions: Array.isArray(positions) ? positions.map((p) => (typeof p === 'number' ? p : 0)) : [],
  };
}
