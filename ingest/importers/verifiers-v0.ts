/**
 * verifiers v0: one row of `results.jsonl` (or of a hosted run's page of samples) to the events of one rollout with one trace. Pure. export-verifiers-v0.ts
 * gives the same row back: what the events do not say is in `extra` of `rollout.ended`. Format: PrimeIntellect-ai/verifiers `verifiers/legacy/types.py`.
 */
import { createHash } from 'node:crypto';
import { fail, ok, type Result } from '../../base/result.ts';
import { eventList, type EventList, type Warning } from './event-list.ts';
import type { ImportedEvent, Scope } from './event-maker.ts';
import { boolOf, compact, countOf, idOf, isList, isRecord, itemsOf, nameOf, numberOf, omit, recordOf, sameJson, textOf, type Json, type JsonRecord } from './json-value.ts'; // prettier-ignore
import { extraOf, restOf, type Rest } from './rest.ts';
import { toolCallsOf } from './tool-calls.ts';
import { rowBack, type V0Event } from './verifiers-v0-back.ts';
import {
  columnOf,
  errorOf,
  FLAT_TIMES,
  isHosted,
  jsonText,
  messagesOf,
  timesOf,
  type RowMessage,
  type RowTimes,
} from './verifiers-v0-row.ts';
import type { V0Run } from './verifiers-v0-run.ts';

export type ImportedRow = {
  readonly run: string;
  readonly rollout: string;
  readonly events: readonly ImportedEvent[];
  readonly warnings: readonly Warning[];
};
/** Where a row stands: `number` counts from 1 in its file, `bytes` are its text. Together they name rollouts that have no id of their own (`id`). */
export type RowPlace = { readonly number: number; readonly bytes: Uint8Array; readonly id?: string | undefined };

/** Columns with a meaning of their own; other numbers are metrics, as every metric is also a column of its own name. */
const COLUMNS = new Set([
  'example_id', 'id', 'prompt', 'completion', 'task', 'answer', 'info', 'reward', 'error', 'error_chain', 'long_error_chain', 'timing', ...FLAT_TIMES,
  'is_completed', 'is_truncated', 'stop_condition', 'metrics', 'tool_defs', 'oai_tools', 'token_usage', 'trajectory', 'advantage', 'problem_id', 'sample_id',
  'step', 'run_id', 'tag', 'env_name', 'created_at', 'num_input_tokens', 'num_output_tokens',
]); // prettier-ignore
/** The events of one row. A row that is no rollout is a Problem; other oddities are kept and warned about. */
export function rowEvents(row: Json, place: RowPlace, run: V0Run, project?: string): Result<ImportedRow> {
  if (!isRecord(row)) return fail('wrong_type', 'a row must be an object');
  if (!Object.hasOwn(row, 'prompt') && !Object.hasOwn(row, 'completion')) {
    return fail('missing_field', 'prompt and completion are both missing: this is no verifiers v0 row', 'completion');
  }
  const made: V0Event[] = [];
  const list = recording(eventList(), made);
  const ownRun = isHosted(row) ? idOf(row['run_id']) : null;
  if (ownRun !== null && ownRun !== run.run) list.warn('run_id', 'another run than the first row of the file');
  const runId = ownRun ?? run.run;
  const rollout = place.id ?? rolloutId(row, runId, place);
  const group = groupId(row, runId);
  const scope: Scope = { project, run: runId, group: group ?? undefined, rollout };
  const inTrace: Scope = { ...scope, trace: `${rollout}-t0` };
  const times = timesOf(row);
  const base = times.started ?? times.created ?? 0;
  const end = times.ended ?? times.created ?? base;
  const messages = messagesOf(row, ({ field, message }) => list.warn(field, message));

  list.add(scope, 'rollout.started', '', base, rolloutStarted(row, run, group, times));
  list.add(inTrace, 'trace.started', '', base, compact({ agent: compact({ model: run.model ?? undefined }), tools: toolsOf(row, run), started: times.started ?? undefined })); // prettier-ignore
  addNodes(messages, inTrace, base, list);
  const measured = addNumbers(row, inTrace, end, list);
  const error = errorOf(columnOf(row, 'error'));
  if (error !== null) list.add(inTrace, 'error.recorded', 'error/0', end, { scope: 'trace', ...error });
  const outcome = outcomeOf(row, error !== null);
  list.add(inTrace, 'trace.ended', '', end, compact({ ...outcome, truncated: boolOf(row['is_truncated']) ?? undefined, counts: { nodes: messages.length, calls: 0 }, timing: times.timing, started: times.started ?? undefined, ended: times.ended ?? undefined })); // prettier-ignore
  const over = compact({ ...outcome, counts: { traces: 1 }, timing: times.timing, started: times.started ?? undefined, ended: times.ended ?? undefined }); // prettier-ignore
  list.add(scope, 'rollout.ended', '', end, compact({ ...over, extra: extraOf(keptOfRow(row, run, measured, [...made, { type: 'rollout.ended', trace: null, data: over }], list)) })); // prettier-ignore
  return ok({ run: runId, rollout, events: list.events, warnings: list.warnings });
}

/** Hosted rows are named by step, problem and sample; others by the sha256 of run, row number and row. */
function rolloutId(row: JsonRecord, run: string, { number, bytes }: RowPlace): string {
  const parts = [row['step'], row['problem_id'], row['sample_id']];
  if (isHosted(row) && parts.every((part) => typeof part === 'number' || typeof part === 'string')) {
    const named = idOf(`${run}-${parts.join('-')}`);
    if (named !== null) return named;
  }
  return `v0-${createHash('sha256').update(`${run}\n${number}\n`).update(bytes).digest('hex').slice(0, 32)}`;
}

/** The rollouts of one example (in training: of one example and step) are a group. */
function groupId(row: JsonRecord, run: string): string | null {
  const example = exampleOf(row);
  if (example === null) return null;
  return idOf(isHosted(row) ? `${run}-${textOrNumber(row['step']) ?? '0'}-${example}` : `${run}-${example}`);
}

function exampleOf(row: JsonRecord): string | null {
  return textOrNumber(row['example_id'] ?? row['id'] ?? (isHosted(row) ? row['problem_id'] : undefined));
}

function textOrNumber(value: Json | undefined): string | null {
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'string' ? String(value) : null;
}

function rolloutStarted(row: JsonRecord, run: V0Run, group: string | null, times: RowTimes): JsonRecord {
  const data = compact({ prompt: columnOf(row, 'prompt'), answer: columnOf(row, 'answer'), info: columnOf(row, 'info') });
  const type = textOf(row['task']);
  const atStep = isHosted(row) ? (countOf(row['step']) ?? undefined) : undefined;
  return compact({
    env: envOf(row, run),
    task: compact({
      type: type !== null && type.length <= 1024 ? type : undefined,
      key: exampleOf(row)?.slice(0, 4096),
      hash: createHash('sha256')
        .update(jsonText(data, { sortKeys: true }))
        .digest('hex'),
      data,
    }),
    group: group === null ? undefined : compact({ id: group, size: run.groupSize ?? undefined }),
    work: isHosted(row) ? compact({ type: 'train', step: atStep }) : { type: 'eval' },
    started: times.started ?? undefined,
  });
}

/** The tools offered: of the row, of its info (old), or of the run. */
function toolsOf(row: JsonRecord, run: V0Run): Json | undefined {
  const places = [columnOf(row, 'tool_defs'), columnOf(row, 'oai_tools'), recordOf(columnOf(row, 'info'))?.['oai_tools'], run.tools];
  return places.find((tools) => isList(tools) && tools.every(isRecord)) ?? undefined;
}

function addNodes(messages: readonly RowMessage[], scope: Scope, time: number, list: EventList): void {
  for (const [index, { message, sampled, original }] of messages.entries()) {
    const data = compact({
      index,
      parent: index > 0 ? index - 1 : undefined,
      role: nameOf(message['role'], 64) ?? 'unknown',
      message,
      sampled,
      extra: original === undefined ? undefined : { verifiers: { tool_calls: original } },
    });
    list.add(scope, 'node.appended', `node/${index}`, time, data);
  }
  const graph = messages.map(({ message, sampled }, index) => ({ parent: index > 0 ? index - 1 : null, sampled, message }));
  for (const { toolCallId, name, node, resultNode } of toolCallsOf(graph)) {
    list.add(
      scope,
      'tool.recorded',
      `tool/${node}/${toolCallId}`,
      time,
      compact({ toolCallId, node, name, resultNode: resultNode ?? undefined }),
    );
  }
}

/** Reward and metrics; returns the columns that became one. */
function addNumbers(row: JsonRecord, scope: Scope, time: number, list: EventList): ReadonlySet<string> {
  const done = new Set<string>();
  const reward = row['reward'];
  if (reward !== undefined && (reward === null || numberOf(reward) !== null)) {
    done.add('reward');
    list.add(scope, 'reward.assigned', 'reward/reward', time, { scope: 'trace', name: 'reward', score: numberOf(reward), weight: 1 });
  } else if (reward !== undefined) list.warn('reward', 'no number: kept in extra');
  const named = recordOf(columnOf(row, 'metrics')) ?? {};
  if (Object.keys(named).every((name) => usable(name, named[name] as Json))) done.add('metrics');
  for (const [name, value] of Object.entries(metricsOf(row))) {
    if (!usable(name, value)) {
      list.warn('metrics', 'no number, or a name of no or more than 1024 characters: kept in extra');
      continue;
    }
    if (sameJson(row[name], value)) done.add(name);
    list.add(scope, 'metric.recorded', `metric/${name}`, time, { scope: 'trace', name, value: numberOf(value) });
  }
  return done;
}

function usable(name: string, value: Json): boolean {
  return nameOf(name) !== null && (value === null || numberOf(value) !== null);
}

/** The `metrics` object, other numeric columns (old rows have only those), and the advantage of training rows. */
function metricsOf(row: JsonRecord): JsonRecord {
  const named = recordOf(columnOf(row, 'metrics')) ?? {};
  const columns = Object.entries(row).filter(
    ([name, value]) => !COLUMNS.has(name) && numberOf(value) !== null && !Object.hasOwn(named, name),
  );
  const advantage = numberOf(row['advantage']) === null ? [] : [['advantage', row['advantage'] as Json] as const];
  return Object.fromEntries<Json>([...advantage, ...Object.entries(named), ...columns]);
}

/** Rows before `is_completed` are ok when they have an `error` column that is null; older ones do not say. */
function outcomeOf(row: JsonRecord, failed: boolean): { ok: boolean | null; stopCondition?: string } {
  const stopCondition = nameOf(row['stop_condition']);
  const said = boolOf(row['is_completed']) ?? (Object.hasOwn(row, 'error') ? true : null);
  return { ok: failed ? false : said, ...(stopCondition !== null && { stopCondition }) };
}

/** The env that the row names, else the run's. */
function envOf(row: JsonRecord, run: V0Run): JsonRecord | undefined {
  const named = textOf(row['env_name']);
  if (named === null || named.length > 1024 || named === run.env?.['id']) return run.env ?? undefined;
  return { id: named };
}

/** The columns whose value the events give back; a value of an unexpected type is not among them. */
function carriedColumns(row: JsonRecord, run: V0Run): string[] {
  const example = ['example_id', 'id', 'problem_id'].find((name) => Object.hasOwn(row, name));
  const typed: [string, boolean][] = [
    ['task', (textOf(row['task'])?.length ?? Infinity) <= 1024],
    ['is_truncated', boolOf(row['is_truncated']) !== null],
    ['stop_condition', nameOf(row['stop_condition']) !== null],
    ['run_id', isHosted(row) && idOf(row['run_id']) !== null],
    ['step', isHosted(row) && countOf(row['step']) !== null],
    ['env_name', textOf(row['env_name']) === envOf(row, run)?.['id']],
    ...FLAT_TIMES.map((name): [string, boolean] => [name, numberOf(row[name]) !== null]),
  ];
  const always = [
    'prompt',
    'completion',
    'answer',
    'info',
    'error',
    ...(exampleOf(row) !== null && example !== undefined ? [example] : []),
  ];
  return [...always, ...typed.filter(([, carried]) => carried).map(([name]) => name)];
}

/** What the events do not say, and what the way back would say otherwise; columns that hold JSON as text come back decoded. */
function keptOfRow(row: JsonRecord, run: V0Run, measured: ReadonlySet<string>, events: readonly V0Event[], list: EventList): Rest {
  const rest = omit(row, new Set([...carriedColumns(row, run), ...measured]));
  if (itemsOf(rest['trajectory']).length > 0)
    list.warn('trajectory', 'steps with tokens and responses: kept in extra, not mapped to nodes');
  const decoded = Object.fromEntries<Json>(Object.entries(row).map(([name, value]) => [name, columnOf(row, name) ?? value]));
  const { verifiers = {}, absent } = restOf(decoded, rowBack(events)?.row ?? {});
  const kept = { ...rest, ...verifiers };
  return { ...(Object.keys(kept).length > 0 && { verifiers: kept }), ...(absent !== undefined && { absent }) };
}

/** Remembers what is added. */
function recording(list: EventList, made: V0Event[]): EventList {
  return {
    ...list,
    add: (scope, type, place, time, data) => {
      made.push({ type, trace: scope.trace ?? null, data: data as JsonRecord });
      list.add(scope, type, place, time, data);
    },
  };
}
