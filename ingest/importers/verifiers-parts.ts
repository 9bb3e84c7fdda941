/** The small records of a verifiers v1 episode, each with its way into event data and its way back. Pure; times are seconds there, microseconds here. */
import { WholeFloat } from '../../events/codec/whole-float.ts';
import { boolOf, compact, countOf, isRecord, nameOf, numberOf, pick, recordOf, textOf, type Json, type JsonRecord } from './json-value.ts';
import { microsOf, secondsOf } from './micros.ts';

const float = (value: number): Json => WholeFloat.box(value);
const floatOr = (value: number | null | undefined): Json | undefined => (value === null || value === undefined ? undefined : float(value));
/** Event data as it is read back: looked up by key, never trusted. */
export type Data = Readonly<Record<string, unknown>>;
const field = (data: unknown, key: string): Json | undefined =>
  isRecord(data as Json) ? ((data as JsonRecord)[key] ?? undefined) : undefined;

// time spans ----------------------------------------------------------------------------------------------------------------------------

export function spanFrom(span: Json | undefined): JsonRecord | undefined {
  const record = recordOf(span);
  if (record === null) return undefined;
  const start = microsOf(numberOf(record['start']));
  const end = microsOf(numberOf(record['end']));
  return start === null && end === null ? undefined : compact({ start: start ?? undefined, end: end ?? undefined });
}

/** Unset ends are 0.0, as upstream writes them. */
export function spanBack(span: Json | undefined): JsonRecord {
  return { start: float(secondsOf(numberOf(field(span, 'start')))), end: float(secondsOf(numberOf(field(span, 'end')))) };
}

const STAGES = ['boot', 'setup', 'agent', 'finalize', 'scoring'] as const;

/** Stages of a trace that have a time, and the model and harness durations of the agent stage (seconds, as measured). */
export function timingFrom(timing: Json | undefined): JsonRecord {
  const record = recordOf(timing) ?? {};
  const stages = STAGES.map((stage) => [stage, spanFrom(record[stage])] as const).filter(
    (s): s is [(typeof s)[0], JsonRecord] => s[1] !== undefined,
  );
  const agent = recordOf(record['agent']);
  const durations = ['model', 'harness'].flatMap((part) => {
    const seconds = numberOf(recordOf(agent?.[part])?.['duration']);
    return seconds === null || seconds === 0 ? [] : [[`${part}Seconds`, seconds] as const];
  });
  return Object.fromEntries<Json>([...stages, ...durations]);
}

export function timingBack(timing: Json | undefined, started: Json | undefined): JsonRecord {
  const duration = (part: string): JsonRecord => ({ duration: float(numberOf(field(timing, `${part}Seconds`)) ?? 0) });
  const stage = (name: string): JsonRecord => spanBack(field(timing, name));
  return {
    start: float(secondsOf(numberOf(started))),
    boot: stage('boot'),
    setup: stage('setup'),
    agent: { ...stage('agent'), model: duration('model'), harness: duration('harness') },
    finalize: stage('finalize'),
    scoring: stage('scoring'),
  };
}

/** The latest end (or start) of any stage, in microseconds; null when no stage has a time. */
export function latestOf(timing: JsonRecord): number | null {
  const times = STAGES.flatMap((stage) => [numberOf(field(timing[stage], 'start')), numberOf(field(timing[stage], 'end'))]);
  const known = times.filter((time) => time !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

// errors --------------------------------------------------------------------------------------------------------------------------------

/** An error always becomes an event; what is no text in it stays in `extra`. */
export function errorFrom(error: Json): JsonRecord {
  const record = recordOf(error) ?? {};
  const statusCode = numberOf(record['status_code']);
  return compact({
    type: nameOf(record['type']) ?? 'unknown',
    message: textOf(record['message']) ?? '',
    statusCode: statusCode !== null && Number.isSafeInteger(statusCode) ? statusCode : undefined,
    traceback: textOf(record['traceback']) ?? undefined,
  });
}

export function errorBack(data: Json | Data): JsonRecord {
  return compact({
    type: field(data, 'type') ?? 'unknown',
    message: field(data, 'message') ?? '',
    status_code: field(data, 'statusCode'),
    traceback: field(data, 'traceback'),
  });
}

// model calls ---------------------------------------------------------------------------------------------------------------------------

const USAGE = [
  ['prompt_tokens', 'promptTokens'],
  ['completion_tokens', 'completionTokens'],
  ['cached_input_tokens', 'cachedTokens'],
  ['reasoning_tokens', 'reasoningTokens'],
] as const;

function usageFrom(usage: Json | undefined): JsonRecord | undefined {
  const record = recordOf(usage);
  if (record === null) return undefined;
  const counts = USAGE.map(([theirs, ours]) => [ours, countOf(record[theirs])] as const).filter(([, n]) => n !== null);
  const cost = numberOf(record['cost']);
  return Object.fromEntries<Json>([...counts, ...(cost === null ? [] : [['cost', cost] as const])]);
}

function usageBack(usage: Json | undefined): JsonRecord | undefined {
  if (usage === undefined) return undefined;
  const counts = USAGE.map(([theirs, ours]) => [theirs, field(usage, ours)] as const).filter(
    (c): c is [(typeof c)[0], Json] => c[1] !== undefined,
  );
  return compact({ ...Object.fromEntries<Json>(counts), cost: floatOr(numberOf(field(usage, 'cost'))) });
}

export function callFrom(call: JsonRecord): JsonRecord {
  const node = countOf(call['node']);
  return compact({
    node: node !== null && node < 0xffff_ffff ? node : undefined,
    model: nameOf(call['model']) ?? undefined,
    endpoint: (textOf(call['endpoint'])?.length ?? Infinity) <= 4096 ? call['endpoint'] : undefined,
    sampling: recordOf(call['sampling']) ?? undefined,
    finishReason: (textOf(call['finish_reason'])?.length ?? Infinity) <= 256 ? call['finish_reason'] : undefined,
    usage: usageFrom(call['usage']),
    time: spanFrom(call['time']),
    error: isRecord(call['error']) ? errorFrom(call['error']) : undefined,
  });
}

export function callBack(data: Json | Data): JsonRecord {
  const error = field(data, 'error');
  return compact({
    node: field(data, 'node'),
    model: field(data, 'model'),
    sampling: field(data, 'sampling'),
    endpoint: field(data, 'endpoint'),
    finish_reason: field(data, 'finishReason'),
    usage: usageBack(field(data, 'usage')),
    time: spanBack(field(data, 'time')),
    error: error === undefined ? undefined : errorBack(error),
  });
}

// rewards and metrics -------------------------------------------------------------------------------------------------------------------

export function rewardFrom(reward: Json): { score: number | null; weight: number | null } {
  const record = recordOf(reward);
  return { score: numberOf(record?.['score']), weight: numberOf(record?.['weight']) };
}

export function rewardBack(data: Json | Data): JsonRecord {
  return compact({ score: floatOr(numberOf(field(data, 'score'))) ?? null, weight: floatOr(numberOf(field(data, 'weight'))) });
}

export function metricBack(data: Json | Data): Json {
  return floatOr(numberOf(field(data, 'value'))) ?? null;
}

// env, task, run ------------------------------------------------------------------------------------------------------------------------

export function envFrom(env: Json | undefined): JsonRecord | undefined {
  const id = textOf(recordOf(env)?.['id']);
  if (id === null || id.length > 1024) return undefined;
  return compact({ id, name: nameOf(recordOf(env)?.['name']) ?? undefined });
}

export function envBack(env: Json | undefined): JsonRecord | undefined {
  return isRecord(env) ? compact({ id: env['id'], name: env['name'] ?? undefined }) : undefined;
}

export function taskFrom(task: Json | undefined): JsonRecord | undefined {
  const record = recordOf(task);
  if (record === null) return undefined;
  const short = (key: string, limit: number): Json | undefined =>
    (textOf(record[key])?.length ?? Infinity) <= limit ? record[key] : undefined;
  return compact({ type: short('type', 1024), key: short('key', 4096), hash: short('hash', 128), data: record['data'] });
}

export function taskBack(task: Json | undefined): JsonRecord | undefined {
  return isRecord(task) ? pick(task, ['type', 'data', 'key', 'hash']) : undefined;
}

/** What the rollout was made for, and the policy versions at its first and last call. */
export function workFrom(run: Json | undefined): { work?: JsonRecord; policyVersion?: number; policyVersionEnd?: number } {
  const record = recordOf(run);
  if (record === null) return {};
  const work = recordOf(record['work']);
  const type = textOf((record['type'] === 'train' ? work : record)?.['type']);
  if (type !== 'train' && type !== 'eval') return {};
  const step = countOf(work?.['step']);
  const policy = recordOf(work?.['policy']);
  const [start, end] = [countOf(policy?.['start']), countOf(policy?.['end'])];
  return {
    work: compact({ type, step: step ?? undefined }),
    ...(start !== null && { policyVersion: start }),
    ...(end !== null && { policyVersionEnd: end }),
  };
}

/** A step makes it a training run; without one it is an eval of its own. */
export function runBack(run: string, data: Json | Data): JsonRecord {
  const work = field(data, 'work');
  const step = field(work, 'step');
  if (step === undefined) return { type: 'eval', id: run };
  const [start, end] = [field(data, 'policyVersion'), field(data, 'policyVersionEnd')];
  const policy = start === undefined || end === undefined ? undefined : { start, end };
  return { type: 'train', id: run, work: compact({ type: field(work, 'type') ?? 'train', step, policy }) };
}

// outcome -------------------------------------------------------------------------------------------------------------------------------

/** Stop conditions that mean "cut short" (verifiers `trace.py`, `is_truncated`). */
const TRUNCATING = new Set(['max_turns', 'max_input_tokens', 'max_output_tokens', 'max_total_tokens', 'context_length']);

/** Cut short by a limit of the rollout, or the last call by a limit of the model. Null when there is nothing to tell it by. */
export function truncatedOf(stopCondition: string | null, calls: readonly Json[]): boolean | null {
  if (stopCondition !== null && TRUNCATING.has(stopCondition)) return true;
  const last = recordOf(calls.at(-1));
  if (last === null) return stopCondition === null ? null : false;
  return last['finish_reason'] === 'length';
}

export function outcomeFrom(record: JsonRecord): { ok: boolean | null; stopCondition?: string } {
  const stopCondition = nameOf(record['stop_condition']);
  return { ok: boolOf(record['ok']), ...(stopCondition !== null && { stopCondition }) };
}
