/**
 * The way back from events to one row of verifiers v0 (`results.jsonl`), as its newest generation writes it, before what `extra` kept is put over it. Pure.
 * The importer runs it too: what it does not give back goes into `extra`, so that both directions agree by construction.
 */
import { WholeFloat } from '../../events/codec/whole-float.ts';
import type { EventType } from '../../events/registry.ts';
import { compact, isList, isRecord, numberOf, recordOf, sameJson, textOf, type Json, type JsonRecord } from './json-value.ts';
import { secondsOf } from './micros.ts';

/** An event of one rollout; `trace` as in its envelope. */
export type V0Event = { readonly type: EventType; readonly trace: string | null; readonly data: JsonRecord };
export type V0Row = {
  readonly row: JsonRecord;
  /** What a row has no place for, with how often it was met. */
  readonly left: ReadonlyMap<string, number>;
};

type Trace = {
  started: JsonRecord;
  ended: JsonRecord | null;
  readonly nodes: Map<number, JsonRecord>;
  readonly calls: Map<number, JsonRecord>;
};
type Parts = {
  started: JsonRecord | null;
  ended: JsonRecord | null;
  readonly traces: Map<string, Trace>;
  readonly named: Map<
    string,
    { readonly kind: 'reward' | 'metric'; readonly trace: string | null; readonly name: string; readonly data: JsonRecord }
  >;
  readonly errors: { readonly trace: string | null; readonly data: JsonRecord }[];
  readonly left: Map<string, number>;
};

/** One row from the events of a rollout in log order. Null without `rollout.started`. */
export function rowBack(events: Iterable<V0Event>): V0Row | null {
  const parts: Parts = { started: null, ended: null, traces: new Map(), named: new Map(), errors: [], left: new Map() };
  for (const event of events) addEvent(event, parts);
  if (parts.started === null) return null;
  return { row: rowOf(parts.started, parts), left: parts.left };
} // prettier-ignore

function addEvent({ type, trace, data }: V0Event, parts: Parts): void {
  const index = numberOf(data['index']) ?? 0;
  if (trace !== null) traceOf(trace, parts);
  switch (type) {
    case 'rollout.started':
      parts.started ??= data;
      return;
    case 'rollout.ended':
      parts.ended = data;
      return;
    case 'trace.started':
      traceOf(trace, parts).started = data;
      return;
    case 'trace.ended':
      traceOf(trace, parts).ended = data;
      return;
    case 'node.appended':
      if (!traceOf(trace, parts).nodes.has(index)) traceOf(trace, parts).nodes.set(index, data);
      return;
    case 'call.recorded':
      if (!traceOf(trace, parts).calls.has(index)) traceOf(trace, parts).calls.set(index, data);
      return;
    case 'reward.assigned':
    case 'metric.recorded':
      return addNamed(type, trace, data, parts);
    case 'error.recorded':
      if (data['scope'] === 'trace' || data['scope'] === 'rollout') parts.errors.push({ trace, data });
      else count(type, 1, parts);
      return;
    // what it says is in the messages
    case 'tool.recorded':
      return;
    default:
      count(type, 1, parts);
  }
}

/** A later value of the same name corrects an earlier one. */
function addNamed(type: 'reward.assigned' | 'metric.recorded', trace: string | null, data: JsonRecord, parts: Parts): void {
  const name = textOf(data['name']) ?? '';
  if (data['scope'] !== 'trace' && data['scope'] !== 'rollout') return count(type, 1, parts);
  const kind = type === 'reward.assigned' ? 'reward' : 'metric';
  parts.named.set(JSON.stringify([kind, data['scope'], trace, name]), { kind, trace, name, data });
}

function traceOf(id: string | null, parts: Parts): Trace {
  const known = parts.traces.get(id ?? '');
  if (known !== undefined) return known;
  const fresh: Trace = { started: {}, ended: null, nodes: new Map(), calls: new Map() };
  parts.traces.set(id ?? '', fresh);
  return fresh;
}

function count(what: string, times: number, parts: Parts): void {
  if (times > 0) parts.left.set(what, (parts.left.get(what) ?? 0) + times);
}

/** A row is about one agent: the first that is trained, else the first. What others mirror is no trace of its own. */
function chosenTrace(parts: Parts): readonly [string | null, Trace] {
  const own = [...parts.traces].filter(([, { started }]) => (started['mirrorOf'] ?? null) === null);
  const trained = own.find(([, { started }]) => recordOf(started['agent'])?.['trainable'] !== false);
  const [id, trace] = trained ?? own[0] ?? [null, { started: {}, ended: null, nodes: new Map(), calls: new Map() }];
  count('other traces', own.length - (id === null ? 0 : 1), parts);
  return [id, trace];
}

function rowOf(started: JsonRecord, parts: Parts): JsonRecord {
  const [id, trace] = chosenTrace(parts);
  const path = lastBranch(trace, parts);
  count('token streams of nodes', path.filter((node) => (node['tokens'] ?? null) !== null).length, parts);
  const task = recordOf(started['task']) ?? {};
  const data = recordOf(task['data']) ?? {};
  const messages = path.map((node) => messageBack(node));
  const split = promptLength(data['prompt'], messages, path);
  const ended = trace.ended ?? {};
  const { reward, metrics } = numbersBack(id, parts);
  const columns = compact({
    example_id: exampleBack(task['key']),
    prompt: messages.slice(0, split),
    completion: messages.slice(split),
    task: textOf(task['type']) ?? undefined,
    answer: data['answer'],
    info: data['info'],
    reward,
    error: errorBack(id, parts),
    timing: timingBack(started, parts.ended ?? {}),
    is_completed: parts.ended !== null,
    is_truncated: typeof ended['truncated'] === 'boolean' ? ended['truncated'] : undefined,
    stop_condition: textOf(ended['stopCondition']) ?? undefined,
    metrics,
    tool_defs: isList(trace.started['tools']) ? trace.started['tools'] : undefined,
    token_usage: usageBack(trace, parts),
  });
  const flat = Object.entries(metrics).filter(([name]) => !Object.hasOwn(columns, name));
  return Object.fromEntries<Json>([...Object.entries(columns), ...flat]);
}

/** The path from a root to the newest leaf; a row holds one conversation. */
function lastBranch(trace: Trace, parts: Parts): JsonRecord[] {
  const path: JsonRecord[] = [];
  let at = trace.nodes.size === 0 ? null : Math.max(...trace.nodes.keys());
  while (at !== null) {
    const node: JsonRecord | undefined = trace.nodes.get(at);
    if (node === undefined) break;
    path.push(node);
    const parent = numberOf(node['parent']);
    at = parent !== null && parent < at ? parent : null;
  }
  count('nodes of other branches', trace.nodes.size - path.length, parts);
  return path.toReversed();
}

function messageBack(node: JsonRecord): Json {
  const message = recordOf(node['message']) ?? { role: node['role'] ?? 'unknown' };
  const calls = recordOf(recordOf(node['extra'])?.['verifiers'])?.['tool_calls'];
  return calls === undefined ? message : { ...message, tool_calls: calls };
}

/** The prompt is what the task says it is, where the conversation begins with it; else what comes before the first sampled answer. */
function promptLength(prompt: Json | undefined, messages: readonly Json[], path: readonly JsonRecord[]): number {
  if (isList(prompt) && prompt.length <= messages.length && prompt.every((item, i) => sameJson(item, messages[i]))) return prompt.length;
  const first = path.findIndex((node) => node['sampled'] === true);
  return first < 0 ? path.length : first;
}

/** Examples are numbered upstream; other keys stay text. */
function exampleBack(key: Json | undefined): Json | undefined {
  if (typeof key !== 'string') return undefined;
  return /^(0|[1-9]\d{0,14})$/.test(key) ? Number(key) : key;
}

/** The reward is the sum of score times weight; null when a score is null, nothing when there is no reward. Every other reward is a metric of its name. */
function numbersBack(trace: string | null, parts: Parts): { reward: Json | undefined; metrics: JsonRecord } {
  const mine = [...parts.named.values()].filter((value) => value.trace === null || value.trace === trace);
  const rewards = mine.filter(({ kind }) => kind === 'reward');
  const terms = rewards.map(({ data }) => {
    const score = numberOf(data['score']);
    const weight = numberOf(data['weight']) ?? 1;
    return score === null ? null : weight === 1 ? score : score * weight;
  });
  const isKnown = terms.every((term): term is number => term !== null);
  const [first, ...rest] = isKnown ? (terms as number[]) : [];
  const sum = first === undefined ? null : WholeFloat.box(rest.reduce((total, term) => total + term, first));
  count('weights of rewards', rewards.filter(({ data }) => (numberOf(data['weight']) ?? 1) !== 1).length, parts);
  count('values of other traces', parts.named.size - mine.length, parts);
  const metrics = mine.flatMap(({ kind, name, data }) => {
    if (kind === 'reward' && name === 'reward') return [];
    const value = numberOf(data[kind === 'reward' ? 'score' : 'value']);
    return [[name, value === null ? null : WholeFloat.box(value)] as const];
  });
  return { reward: rewards.length === 0 ? undefined : sum, metrics: Object.fromEntries<Json>(metrics) };
}

/** A row has room for one error, null when there is none. */
function errorBack(trace: string | null, parts: Parts): Json {
  const [first, ...others] = parts.errors.filter((error) => error.trace === null || error.trace === trace);
  count('errors beyond the first', others.length, parts);
  count('errors of other traces', parts.errors.length - others.length - (first === undefined ? 0 : 1), parts);
  if (first === undefined) return null;
  const kept = recordOf(first.data['extra']);
  if (kept !== null && Object.hasOwn(kept, 'verifiers')) return kept['verifiers'] as Json;
  const { type, message, traceback } = first.data;
  return compact({ error: type ?? 'error', message: message ?? '', error_chain_str: traceback ?? undefined });
}

/** Stages in seconds, as verifiers names them: what the agent did is `generation`. */
function timingBack(started: JsonRecord, ended: JsonRecord): JsonRecord | undefined {
  const timing = recordOf(ended['timing']) ?? {};
  const stages = (['setup', 'generation', 'scoring'] as const).map((stage) => [stage, spanBack(timing[stage] ?? (stage === 'generation' ? timing['agent'] : undefined))] as const);
  const [begin, end] = [numberOf(ended['started'] ?? started['started']), numberOf(ended['ended'])];
  const record = compact({
    start_time: begin === null ? undefined : WholeFloat.box(secondsOf(begin)),
    ...Object.fromEntries(stages),
    total: begin === null || end === null ? undefined : WholeFloat.box((end - begin) / 1e6),
  });
  return Object.keys(record).length > 0 ? record : undefined;
} // prettier-ignore

function spanBack(span: Json | undefined): JsonRecord | undefined {
  const [start, end] = [numberOf(recordOf(span)?.['start']), numberOf(recordOf(span)?.['end'])];
  if (start === null || end === null) return undefined;
  return { start: WholeFloat.box(secondsOf(start)), end: WholeFloat.box(secondsOf(end)), duration: WholeFloat.box((end - start) / 1e6) };
}

/** Sums over all calls when each of them says its usage; cached tokens count as input. Floats, as upstream writes them. */
function usageBack(trace: Trace, parts: Parts): JsonRecord | undefined {
  const usages = [...trace.calls.values()].map((call) => recordOf(call['usage']));
  count('call.recorded', trace.calls.size, parts);
  const sum = (names: readonly string[]): Json | null => {
    const counts = usages.map((usage) => (isRecord(usage ?? undefined) && numberOf(usage?.[names[0] as string]) !== null ? names.reduce((total, name) => total + (numberOf(usage?.[name]) ?? 0), 0) : null));
    return counts.length === 0 || counts.includes(null) ? null : WholeFloat.box(counts.reduce<number>((total, each) => total + (each ?? 0), 0));
  };
  const [input, output] = [sum(['promptTokens', 'cachedTokens']), sum(['completionTokens'])];
  return input === null && output === null ? undefined : compact({ input_tokens: input ?? undefined, output_tokens: output ?? undefined });
} // prettier-ignore
