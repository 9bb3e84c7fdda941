/**
 * verifiers v1: one episode (a line of `traces.jsonl`) to the events of one rollout. Pure. What events cannot say stays in their `extra`, so that
 * export-verifiers.ts gives the same episode back, field by field. Format: PrimeIntellect-ai/verifiers `verifiers/v1/{episode,trace,graph}.py`.
 */
import { fail, ok, type Problem, type Result } from '../../base/result.ts';
import { eventList, type EventList, type Warning } from './event-list.ts';
import { makeEvent, type ImportedEvent, type Scope } from './event-maker.ts';
import { compact, idOf, isList, isRecord, itemsOf, nameOf, numberOf, omit, pick, recordOf, textOf, type Json, type JsonRecord } from './json-value.ts'; // prettier-ignore
import { microsOf } from './micros.ts';
import { extraOf, restOf, withAbsent } from './rest.ts';
import { EPISODE_HEAD, EPISODE_LISTS, episodeHeadBack, episodeTailBack } from './verifiers-back.ts';
import { addErrors } from './verifiers-errors.ts';
import { envFrom, latestOf, outcomeFrom, taskFrom, timingFrom, workFrom } from './verifiers-parts.ts';
import { traceEvents } from './verifiers-v1-trace.ts';

export type ImportOptions = {
  readonly project?: string | undefined;
  /** Run for records that name none. */
  readonly run?: string | undefined;
};

export type Imported = {
  readonly run: string;
  /** `run.started`: the caller sends it once per run and file. */
  readonly runEvent: ImportedEvent;
  readonly rollout: string;
  readonly group: string | undefined;
  /** Microseconds: when the episode ended, else began; 0 when it has no time. */
  readonly time: number;
  readonly events: readonly ImportedEvent[];
  readonly warnings: readonly Warning[];
};

/**
 * The events of one episode, in order: rollout.started, each trace, the errors of the episode, rollout.ended. A line that is no episode (no id, a list that
 * is none) is a Problem that names the field; any other oddity is kept and warned about.
 */
export function episodeEvents(episode: Json, options: ImportOptions = {}): Result<Imported> {
  if (!isRecord(episode)) return fail('wrong_type', 'an episode must be an object');
  const problem = shapeProblem(episode);
  if (problem !== null) return { ok: false, error: problem };
  const rollout = idOf(episode['id']) as string;
  const list = eventList();
  const run = runOf(episode, options, list);
  const group = idOf(recordOf(episode['group'])?.['id']) ?? undefined;
  const scope: Scope = { project: options.project, run, group, rollout };
  const times = episodeTimes(episode);
  const base = times.first ?? 0;

  list.add(scope, 'rollout.started', '', base, rolloutStarted(episode, run, rollout, times.started));
  const traces = itemsOf(episode['traces']) as readonly JsonRecord[];
  const taken = new Set<string>();
  for (const [index, trace] of traces.entries()) {
    const id = traceId(trace, index, rollout, taken, list);
    traceEvents(trace, { scope: { ...scope, trace: id }, episode, base }, list);
  }
  addErrors(itemsOf(episode['errors']), 'rollout', scope, times.ended ?? base, list);
  const time = times.ended ?? base;
  list.add(scope, 'rollout.ended', '', time, rolloutEnded(episode, times));
  const { events, warnings } = list;
  return ok({ run, runEvent: runStarted(episode, scope, base), rollout, group, time, events, warnings });
}

function rolloutStarted(episode: JsonRecord, run: string, rollout: string, started: number | null): JsonRecord {
  const group = recordOf(episode['group']);
  const groupId = idOf(group?.['id']);
  const data = compact({
    env: envFrom(episode['env']),
    task: taskFrom(episode['task']),
    group: groupId === null ? undefined : { id: groupId },
    ...workFrom(episode['run']),
    started: started ?? undefined,
  });
  const extra = extraOf(restOf(pick(episode, EPISODE_HEAD), episodeHeadBack(rollout, run, data)));
  return compact({ ...data, extra });
}

function rolloutEnded(episode: JsonRecord, times: EpisodeTimes): JsonRecord {
  const data = compact({
    ...outcomeFrom(episode),
    counts: { traces: itemsOf(episode['traces']).length },
    started: times.started ?? undefined,
    ended: times.ended ?? undefined,
  });
  const tail = omit(episode, new Set([...EPISODE_HEAD, ...EPISODE_LISTS.filter((key) => isList(episode[key]))]));
  return compact({ ...data, extra: extraOf(withAbsent(restOf(tail, episodeTailBack(data)), episode, EPISODE_LISTS)) });
}

function runStarted(episode: JsonRecord, scope: Scope, time: number): ImportedEvent {
  const run = recordOf(episode['run']);
  const type = textOf(run?.['type']);
  const kind = type === 'train' || type === 'eval' ? type : undefined;
  const data = compact({ kind, name: nameOf(run?.['name']) ?? undefined, extra: { source: 'verifiers.v1' } });
  return makeEvent({ project: scope.project, run: scope.run }, 'run.started', '', time, data);
}

/** The run of the record, else the caller's, else one per environment. */
function runOf(episode: JsonRecord, options: ImportOptions, list: EventList): string {
  const given = idOf(recordOf(episode['run'])?.['id']);
  if (given !== null) return given;
  const env = textOf(recordOf(episode['env'])?.['id']) ?? '';
  const run = options.run ?? idOf(`verifiers-${env}`) ?? 'verifiers';
  list.warn('run', `the record names no run: imported as run ${run}`);
  return run;
}

function traceId(trace: JsonRecord, index: number, rollout: string, taken: Set<string>, list: EventList): string {
  let id = idOf(trace['id']);
  if (id === null || taken.has(id)) {
    list.warn('traces.id', id === null ? 'missing or no id: the episode id and the number are used' : 'the same id twice in an episode');
    id = `${rollout.slice(0, 200)}/${index}`;
  }
  taken.add(id);
  return id;
}

type EpisodeTimes = { readonly started: number | null; readonly ended: number | null; readonly first: number | null };

/** Microseconds: earliest start and latest end of the traces; `first` falls back to the earliest node. */
function episodeTimes(episode: JsonRecord): EpisodeTimes {
  const traces = itemsOf(episode['traces']) as readonly JsonRecord[];
  const starts = traces.map((trace) => microsOf(numberOf(recordOf(trace['timing'])?.['start']))).filter((t) => t !== null);
  const ends = traces.map((trace) => latestOf(timingFrom(trace['timing']))).filter((t) => t !== null);
  const nodes = traces.flatMap((trace) => itemsOf(trace['nodes']).map((n) => microsOf(numberOf((n as JsonRecord)['timestamp']))));
  const stamps = nodes.filter((t) => t !== null);
  const earliest = (times: readonly number[]): number | null =>
    times.reduce<number | null>((min, t) => (min === null || t < min ? t : min), null);
  const started = earliest(starts);
  return {
    started,
    ended: ends.reduce<number | null>((max, t) => (max === null || t > max ? t : max), null),
    first: started ?? earliest(stamps),
  };
}

/** What makes a line no episode at all; everything else is kept. */
function shapeProblem(episode: JsonRecord): Problem | null {
  if (idOf(episode['id']) === null) {
    return {
      code: 'invalid_id',
      message: 'id must be 1 to 256 bytes of text: without it the episode cannot be told from others',
      field: 'id',
    };
  }
  if (!Object.hasOwn(episode, 'traces'))
    return { code: 'missing_field', message: 'traces is missing: this is no episode', field: 'traces' };
  const traces = itemsOf(episode['traces']);
  const odd = traces.findIndex((trace) => !isRecord(trace));
  if (odd >= 0) return { code: 'wrong_type', message: 'a trace must be an object', field: `traces[${odd}]` };
  const problems = [
    listProblem(episode, 'traces', ''),
    listProblem(episode, 'errors', ''),
    ...traces.flatMap((trace, i) => traceProblems(trace as JsonRecord, `traces[${i}].`)),
  ];
  return problems.find((problem) => problem !== null) ?? null;
}

function traceProblems(trace: JsonRecord, at: string): (Problem | null)[] {
  const items = ['nodes', 'calls'].map((key) => {
    const odd = itemsOf(trace[key]).findIndex((item) => !isRecord(item));
    return odd < 0 ? null : wrongType(`${at}${key}[${odd}]`, 'an object');
  });
  const maps = ['rewards', 'metrics'].map((key) =>
    missing(trace[key]) || isRecord(trace[key]) ? null : wrongType(`${at}${key}`, 'an object'),
  );
  return [listProblem(trace, 'nodes', at), listProblem(trace, 'calls', at), listProblem(trace, 'errors', at), ...items, ...maps];
}

function listProblem(record: JsonRecord, key: string, at: string): Problem | null {
  return missing(record[key]) || isList(record[key]) ? null : wrongType(`${at}${key}`, 'a list');
}

function wrongType(field: string, wanted: string): Problem {
  return { code: 'wrong_type', message: `${field} must be ${wanted}`, field };
}

function missing(value: Json | undefined): boolean {
  return value === undefined || value === null;
}
