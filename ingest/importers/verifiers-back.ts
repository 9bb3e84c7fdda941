/**
 * The way back from event data to the records of a verifiers v1 file, before what `extra` kept is put over it. The importer runs it too: what it does not
 * give back goes into `extra`, so that both directions agree by construction.
 */
import { WholeFloat } from '../../events/codec/whole-float.ts';
import { compact, isRecord, textOf, type Json, type JsonRecord } from './json-value.ts';
import { secondsOf } from './micros.ts';
import { envBack, runBack, taskBack, timingBack } from './verifiers-parts.ts';

/** Fields of an episode that `rollout.started` carries; the rest goes with `rollout.ended`. */
export const EPISODE_HEAD: readonly string[] = ['id', 'env', 'task', 'group', 'run'];
/** Fields of a trace that `trace.started` carries; the rest goes with `trace.ended`. */
export const TRACE_HEAD: readonly string[] = ['version', 'id', 'verifiers', 'task', 'agent', 'tools'];
/** Fields whose items are events of their own. */
export const EPISODE_LISTS: readonly string[] = ['errors', 'traces'];
export const TRACE_LISTS: readonly string[] = ['nodes', 'calls', 'rewards', 'metrics', 'errors'];

export function episodeHeadBack(rollout: string, run: string, data: JsonRecord): JsonRecord {
  const group = isRecord(data['group']) ? { id: data['group']['id'] as Json } : undefined;
  return compact({ id: rollout, env: envBack(data['env']), task: taskBack(data['task']), group, run: runBack(run, data) });
}

/** An episode that has not ended yet is not ok. */
export function episodeTailBack(data: JsonRecord): JsonRecord {
  return { ok: data['ok'] === true };
}

export function traceHeadBack(trace: string, data: JsonRecord, episodeTask: Json | undefined): JsonRecord {
  const agent = isRecord(data['agent']) ? data['agent'] : {};
  return compact({
    version: 1,
    id: trace,
    verifiers: { version: '' },
    task: episodeTask,
    agent: compact({
      config: agent['config'] ?? {},
      runtime: data['runtime'] ?? undefined,
      name: textOf(agent['name']) ?? 'agent',
      trainable: agent['trainable'] ?? true,
    }),
    tools: data['tools'] ?? [],
  });
}

/** `ended` is false while no `trace.ended` is there. */
export function traceTailBack(data: JsonRecord, started: Json | undefined, ended: boolean): JsonRecord {
  return compact({
    request_rewrites: [],
    response_rewrites: [],
    info: {},
    extra_usage: [],
    is_completed: ended,
    ok: data['ok'] === true,
    stop_condition: data['stopCondition'] ?? undefined,
    timing: timingBack(data['timing'], started),
  });
}

/** A node without its token streams. `time` is the event's, in microseconds. */
export function nodeBack(time: number, data: JsonRecord): JsonRecord {
  return compact({
    parent: data['parent'] ?? undefined,
    message: data['message'] ?? {},
    sampled: data['sampled'] === true,
    timestamp: WholeFloat.box(secondsOf(time)),
  });
}
