/**
 * ATIF: one trajectory to the events of one trace, and of its rollout. Pure. trajectory.ts gives the same trajectory back: what the events do not say is in `extra.atif` of
 * `trace.started` and of the nodes. Trajectories of sub-agents that lie inside become traces of the same rollout, linked to the step that called them. A trajectory has no
 * reward, no error and no outcome. Format: Harbor's RFC 0001, v1.0 to v1.7.
 */
import { createHash } from 'node:crypto';
import { fail, ok, type Result } from '../../../base/result.ts';
import { eventList, type EventList, type Warning } from '../event-list.ts';
import { makeEvent, type ImportedEvent, type Scope } from '../event-maker.ts';
import { compact, idOf, isList, isRecord, itemsOf, nameOf, omit, recordOf, textOf, type Json, type JsonRecord } from '../json-value.ts'; // prettier-ignore
import { microsOfIso } from '../micros.ts';
import { nestedRest, withNestedRest } from '../nested-rest.ts';
import { jsonReader } from '../read-json.ts';
import { toolCallsOf } from '../tool-calls.ts';
import { jsonText } from '../verifiers-v0-row.ts';
import type { ImportOptions } from '../verifiers-v1.ts';
import { exactJson } from './exact-json.ts';
import { definitionsFrom, ownExtra } from './messages.ts';
import { readSteps, type ReadSteps } from './read-steps.ts';
import { trajectoryOf, type AtifEvent } from './trajectory.ts';

export type ImportedTrajectory = {
  readonly run: string;
  /** `run.started`: the caller sends it once per run and file. */
  readonly runEvent: ImportedEvent;
  readonly rollout: string;
  readonly events: readonly ImportedEvent[];
  readonly warnings: readonly Warning[];
};

/** How deep sub-agents may lie in one another. */
const MAX_DEPTH = 16;
const PARTS = new Set(['steps', 'subagent_trajectories']);

/** The events of a trajectory. What is none (no `schema_version` of ATIF, no steps) is a Problem; any other oddity is kept and warned about. */
export function trajectoryEvents(value: Json, options: ImportOptions = {}): Result<ImportedTrajectory> {
  const problem = shapeProblem(value, 0);
  if (problem !== null) return fail(problem.code, problem.message, problem.field);
  const trajectory = value as JsonRecord;
  const list = eventList();
  const agent = textOf(recordOf(trajectory['agent'])?.['name']) ?? '';
  const run = idOf(recordOf(trajectory['extra'])?.['run']) ?? options.run ?? idOf(`atif-${agent}`) ?? 'atif';
  const rollout = idOf(trajectory['session_id']) ?? idOf(trajectory['trajectory_id']) ?? `atif-${digestOf(trajectory)}`;
  const scope: Scope = { project: options.project, run, rollout };
  const base = firstTime(trajectory);
  list.add(scope, 'rollout.started', '', base, {});
  const ended = addTrace(trajectory, scope, base, list);
  list.add(scope, 'rollout.ended', '', ended, { ok: null });
  const runEvent = makeEvent({ project: options.project, run }, 'run.started', '', base, { kind: 'eval', extra: { source: 'atif' } });
  return ok({ run, runEvent, rollout, events: list.events, warnings: list.warnings });
}

/** Adds a trajectory and those inside it; returns the time of the last step. */
function addTrace(trajectory: JsonRecord, outer: Scope, base: number, list: EventList): number {
  const trace = traceIdOf(trajectory, outer.rollout as string);
  const scope: Scope = { ...outer, trace };
  const steps = itemsOf(trajectory['steps']) as readonly JsonRecord[];
  const read = readSteps(steps, firstTime(trajectory) || base);
  for (const { field, message } of read.warnings) list.warn(field, message);
  const begin = read.nodes[0]?.time ?? base;
  const end = read.nodes.at(-1)?.time ?? begin;
  const { started, rests } = withRests(trajectory, scope, begin, read);
  list.add(scope, 'trace.started', '', begin, started);
  for (const { step, isStep, time, data } of read.nodes) {
    const rest = isStep ? rests[step] : null;
    list.add(scope, 'node.appended', `node/${data['index'] as number}`, time, rest === null || rest === undefined ? data : { ...data, extra: { atif: rest } });
  }
  for (const { time, data } of read.calls) list.add(scope, 'call.recorded', `call/${data['index'] as number}`, time, data);
  addTools(read, scope, list);
  addLinks(steps, read, scope, list);
  for (const inner of itemsOf(trajectory['subagent_trajectories'])) addTrace(withSession(inner as JsonRecord, outer), outer, begin, list);
  list.add(scope, 'trace.ended', '', end, { ok: null, counts: { nodes: read.nodes.length, calls: read.calls.length }, ...(end > 0 && { ended: end }) });
  return end;
} // prettier-ignore

/** A trajectory inside another is of the same session. */
function withSession(inner: JsonRecord, { rollout }: Scope): JsonRecord {
  return { ...inner, session_id: inner['session_id'] ?? (rollout as string) };
}

/** Compares with what the way back makes of these events: the data of `trace.started`, and per step what its node does not say. */
function withRests(trajectory: JsonRecord, { run, rollout, trace }: Scope, time: number, read: ReadSteps): { started: JsonRecord; rests: (JsonRecord | null)[] } {
  const started = traceStarted(trajectory);
  const event = (type: string, data: JsonRecord, at = time): AtifEvent => ({ type, time: at, trace: trace as string, data });
  const events = [
    event('trace.started', started),
    ...read.nodes.map((node) => event('node.appended', node.data, node.time)),
    ...read.calls.map((call) => event('call.recorded', call.data)),
  ];
  const back = trajectoryOf({ run, rollout: rollout as string, trace: trace as string }, events, () => {});
  if (back === null) return { started, rests: [] };
  const steps = itemsOf(trajectory['steps']) as readonly JsonRecord[];
  const parsed = asRead();
  const rests = [...back.steps].map((step, i) => nestedRest(steps[i] as JsonRecord, parsed(step)));
  const rest = nestedRest(omit(trajectory, PARTS), parsed({ ...back.head, ...back.tail() }));
  return { started: compact({ ...started, extra: rest === null ? undefined : { atif: rest } }), rests };
} // prettier-ignore

/** What a reader finds in the text that is written. */
function asRead(): (value: JsonRecord) => JsonRecord {
  const read = jsonReader();
  return (value) => {
    const found = read(Buffer.from(exactJson(value)));
    return found.ok && isRecord(found.value) ? found.value : {};
  };
}

function traceStarted(trajectory: JsonRecord): JsonRecord {
  const agent = recordOf(trajectory['agent']) ?? {};
  const definitions = definitionsFrom(agent['tool_definitions']);
  const { tools } = withNestedRest(definitions === null || definitions.length > 100_000 ? {} : { tools: definitions }, ownExtra(trajectory)['started']);
  return compact({
    agent: compact({ name: nameOf(agent['name']) ?? undefined, model: nameOf(agent['model_name']) ?? undefined }),
    tools: isList(tools) && tools.every(isRecord) ? tools : undefined,
  });
} // prettier-ignore

function addTools({ nodes }: ReadSteps, scope: Scope, list: EventList): void {
  const graph = nodes.map(({ data }) => ({ parent: (data['parent'] ?? null) as number | null, sampled: data['sampled'] === true, message: recordOf(data['message']) }));
  for (const { toolCallId, name, node, resultNode } of toolCallsOf(graph)) {
    const time = nodes[node]?.time ?? 0;
    list.add(scope, 'tool.recorded', `tool/${node}/${toolCallId}`, time, compact({ toolCallId, node, name, resultNode: resultNode ?? undefined }));
  }
} // prettier-ignore

/** Trajectories of the same session that a result refers to by their id. */
function addLinks(steps: readonly JsonRecord[], { nodes }: ReadSteps, scope: Scope, list: EventList): void {
  for (const [i, step] of steps.entries()) {
    const node = nodes.find((each) => each.isStep && each.step === i);
    const results = itemsOf(recordOf(step['observation'])?.['results']);
    for (const ref of results.flatMap((result) => itemsOf(recordOf(result)?.['subagent_trajectory_ref']))) {
      const to = idOf(recordOf(ref)?.['trajectory_id']);
      const session = recordOf(ref)?.['session_id'] ?? scope.rollout;
      if (to === null || session !== scope.rollout || node === undefined) continue;
      const from = { trace: scope.trace, node: node.data['index'] };
      list.add(scope, 'link.added', `link/${i}/${to}`, node.time, { from, to: { trace: to, node: 0 }, type: 'subagent_call' });
    }
  }
}

/** Of one session there may be several trajectories without an id: they are told apart by agent and first step, which stay as they are while a file grows. */
function traceIdOf(trajectory: JsonRecord, rollout: string): string {
  return idOf(trajectory['trajectory_id']) ?? `${rollout.slice(0, 70).toWellFormed()}-${digestOf(trajectory)}`;
}

function digestOf(trajectory: JsonRecord): string {
  const first = { agent: trajectory['agent'] as Json, step: itemsOf(trajectory['steps'])[0] as Json };
  return createHash('sha256').update(jsonText(first, { sortKeys: true })).digest('hex').slice(0, 16); // prettier-ignore
}

/** Microseconds of the first step that has a time; 0 when none has. */
function firstTime(trajectory: JsonRecord): number {
  for (const step of itemsOf(trajectory['steps'])) {
    const time = microsOfIso(textOf(recordOf(step)?.['timestamp']) ?? '');
    if (time !== null) return time;
  }
  return 0;
}

type Shape = { readonly code: 'wrong_type' | 'missing_field' | 'too_deep'; readonly message: string; readonly field?: string };

/** What makes it no trajectory at all, inside as well; everything else is kept. */
function shapeProblem(value: Json, depth: number): Shape | null {
  if (!isRecord(value)) return { code: 'wrong_type', message: 'a trajectory must be an object' };
  if (depth > MAX_DEPTH) return { code: 'too_deep', message: `trajectories lie more than ${MAX_DEPTH} deep in one another`, field: 'subagent_trajectories' };
  const version = textOf(value['schema_version']);
  if (version === null || !version.startsWith('ATIF-v')) return { code: 'missing_field', message: 'schema_version must be that of an ATIF trajectory (ATIF-v1.…)', field: 'schema_version' };
  const steps = value['steps'];
  if (!isList(steps) || steps.length === 0) return { code: isList(steps) ? 'missing_field' : 'wrong_type', message: 'steps must be a list with one step at least', field: 'steps' };
  const odd = steps.findIndex((step) => !isRecord(step));
  if (odd >= 0) return { code: 'wrong_type', message: 'a step must be an object', field: `steps[${odd}]` };
  const inner = value['subagent_trajectories'];
  if (inner === undefined || inner === null) return null;
  if (!isList(inner)) return { code: 'wrong_type', message: 'subagent_trajectories must be a list', field: 'subagent_trajectories' };
  for (const each of inner) {
    const problem = shapeProblem(each, depth + 1);
    if (problem !== null) return { ...problem, message: `in subagent_trajectories: ${problem.message}` };
  }
  return null;
} // prettier-ignore
