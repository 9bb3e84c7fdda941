/**
 * The events of a rollout back to one verifiers v1 episode. Pure. Episodes that came through the importer come back equal field by field; rollouts recorded
 * here become episodes with upstream's defaults where an event says nothing.
 */
import { PackedArray } from '../../events/packed-array.ts';
import { lossesOf } from './episode-losses.ts';
import { exactEvent, type ExactEvent } from './exact-event.ts';
import { compact, isRecord, itemsOf, numberOf, recordOf, textOf, type Json, type JsonRecord } from './json-value.ts';
import { floatsOf } from './json-text.ts';
import { UPLOAD_LABEL } from './note-labels.ts';
import { withRest } from './rest.ts';
import { episodeHeadBack, episodeTailBack, nodeBack, traceHeadBack, traceTailBack } from './verifiers-back.ts';
import { callBack, errorBack, metricBack, rewardBack } from './verifiers-parts.ts';
import { tokensToRecord } from './verifiers-tokens.ts';
import { episodeEvents } from './verifiers-v1.ts';

type TraceParts = {
  started: JsonRecord;
  ended: JsonRecord | null;
  readonly nodes: Map<number, JsonRecord>;
  readonly calls: Map<number, JsonRecord>;
  readonly rewards: Map<string, Json>;
  readonly metrics: Map<string, Json>;
  readonly errors: Json[];
  /** Semantic edges that end at a node, by its index. */
  readonly links: Map<number, JsonRecord[]>;
};
type Parts = {
  run: string;
  started: JsonRecord | null;
  ended: JsonRecord;
  readonly traces: Map<string, TraceParts>;
  /** Values about the rollout as a whole: v1 knows only those of a trace. */
  readonly rewards: Map<string, Json>;
  readonly metrics: Map<string, Json>;
  readonly errors: Json[];
  readonly left: Map<string, number>;
};

export type Episode = {
  readonly episode: JsonRecord;
  /** What of the rollout a v1 episode has no place for, and how often it was met: events by their type, and fields as `<type>: <field>`. */
  readonly left: ReadonlyMap<string, number>;
};

/**
 * Builds the episode of one rollout from its events in log order (slices with large values put back). When several events say the same thing, the last one
 * counts for rewards, metrics and ends, the first for everything else. Null when there is no `rollout.started`. Throws what `readEvent` finds wrong.
 */
export async function episodeOf(rollout: string, slices: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Episode | null> {
  const parts: Parts = {
    run: '',
    started: null,
    ended: {},
    traces: new Map(),
    rewards: new Map(),
    metrics: new Map(),
    errors: [],
    left: new Map(),
  };
  const events: ExactEvent[] = [];
  for await (const slice of slices) {
    const event = exactEvent(slice);
    events.push(event);
    addEvent(event, parts);
  }
  if (parts.started === null) return null;
  const episode = episodeFrom(rollout, parts, parts.started);
  return { episode, left: withLosses(parts.left, events, episode) };
}

function withLosses(left: Map<string, number>, events: readonly ExactEvent[], episode: JsonRecord): Map<string, number> {
  const again = episodeEvents(episode);
  // what no importer takes is no episode to it: every event is lost there
  const returned = again.ok ? again.value.events.map(({ slice }) => exactEvent(slice)) : [];
  for (const [what, times] of lossesOf(events, returned)) left.set(what, (left.get(what) ?? 0) + times);
  return left;
}

function addEvent(event: ExactEvent, parts: Parts): void {
  const { type, data } = event;
  switch (type) {
    case 'rollout.started':
      parts.run = event.run;
      parts.started ??= data;
      return;
    case 'rollout.ended':
      parts.ended = data;
      return;
    case 'reward.assigned':
      return addNamed(event, parts, 'rewards', 'verifiers' in keptOf(data) ? (keptOf(data)['verifiers'] as Json) : rewardBack(data));
    case 'metric.recorded':
      return addNamed(event, parts, 'metrics', 'verifiers' in keptOf(data) ? (keptOf(data)['verifiers'] as Json) : metricBack(data));
    case 'error.recorded': {
      const error = 'verifiers' in keptOf(data) ? (keptOf(data)['verifiers'] as Json) : errorBack(data);
      if (data['scope'] === 'rollout') parts.errors.push(error);
      else if (data['scope'] === 'trace') traceOf(event, parts)?.errors.push(error);
      else countLeft(type, parts);
      return;
    }
    case 'trace.started':
    case 'trace.ended':
    case 'node.appended':
    case 'call.recorded':
      return addToTrace(event, traceOf(event, parts) as TraceParts);
    case 'note.added':
      // in which upload it came is no part of the episode
      if (data['label'] !== UPLOAD_LABEL) countLeft(type, parts);
      return;
    case 'link.added':
      return addLink(event, parts);
    // what comes back of it is in the messages
    case 'tool.recorded':
      return;
    default:
      countLeft(type, parts);
  }
}

function addToTrace({ type, time, data }: ExactEvent, trace: TraceParts): void {
  const index = numberOf(data['index']) ?? 0;
  if (type === 'trace.started') trace.started = data;
  else if (type === 'trace.ended') trace.ended = data;
  else if (type === 'call.recorded' && !trace.calls.has(index)) trace.calls.set(index, withRest(callBack(data), data['extra']));
  else if (type === 'node.appended' && !trace.nodes.has(index)) trace.nodes.set(index, nodeFrom(time, data));
}

function nodeFrom(time: number, data: JsonRecord): JsonRecord {
  const extra = keptOf(data);
  const doubles = new Set(itemsOf(extra['doubles']).map((name) => textOf(name) ?? ''));
  const streams = tokensToRecord(recordOf(data['tokens']), doubles);
  const node = withRest({ ...nodeBack(time, data), ...streams }, extra);
  const entries = Object.entries(node).map(([key, value]) => [key, value instanceof PackedArray ? floatsOf(value) : value] as const);
  return Object.fromEntries<Json>(entries);
}

function addNamed(event: ExactEvent, parts: Parts, kind: 'rewards' | 'metrics', value: Json): void {
  const name = textOf(event.data['name']) ?? '';
  const { scope } = event.data;
  if (scope === 'trace') traceOf(event, parts)?.[kind].set(name, value);
  else if (scope === 'rollout') parts[kind].set(name, value);
  else countLeft(event.type, parts);
}

/** An edge inside a trace is a parent of the node where it ends; one between traces has no place, and is counted when the episode is compared. */
function addLink({ trace, data }: ExactEvent, parts: Parts): void {
  const [from, to] = [recordOf(data['from']), recordOf(data['to'])];
  const [start, end] = [numberOf(from?.['node']), numberOf(to?.['node'])];
  if (start === null || end === null || from?.['trace'] !== to?.['trace']) return;
  const { links } = traceNamed(textOf(to?.['trace']) ?? trace ?? '', parts);
  links.set(end, [...(links.get(end) ?? []), { node: start, type: data['type'] as Json }]);
}

function traceOf(event: ExactEvent, parts: Parts): TraceParts | null {
  return event.trace === null ? null : traceNamed(event.trace, parts);
}

function traceNamed(trace: string, parts: Parts): TraceParts {
  const known = parts.traces.get(trace);
  if (known !== undefined) return known;
  const fresh: TraceParts = {
    started: {},
    ended: null,
    nodes: new Map(),
    calls: new Map(),
    rewards: new Map(),
    metrics: new Map(),
    errors: [],
    links: new Map(),
  };
  parts.traces.set(trace, fresh);
  return fresh;
}

function countLeft(type: string, parts: Parts): void {
  parts.left.set(type, (parts.left.get(type) ?? 0) + 1);
}

function keptOf(data: JsonRecord): JsonRecord {
  return recordOf(data['extra']) ?? {};
}

function episodeFrom(rollout: string, parts: Parts, started: JsonRecord): JsonRecord {
  const head = withRest(episodeHeadBack(rollout, parts.run, started), started['extra']);
  placeRolloutValues(parts);
  const traces = [...parts.traces].map(([id, trace]) => traceFrom(id, trace, head['task']));
  const body = { ...head, ...episodeTailBack(parts.ended), errors: parts.errors, traces };
  return inOrder(withRest(body, parts.ended['extra']), EPISODE_ORDER);
}

/** A rollout with one trace: values about the rollout are values about that trace. With several there is no place for them. */
function placeRolloutValues(parts: Parts): void {
  const [only, second] = parts.traces.values();
  for (const kind of ['rewards', 'metrics'] as const) {
    for (const [name, value] of parts[kind]) {
      if (only !== undefined && second === undefined && !only[kind].has(name)) only[kind].set(name, value);
      else countLeft(kind === 'rewards' ? 'reward.assigned' : 'metric.recorded', parts);
    }
  }
}

function traceFrom(id: string, trace: TraceParts, episodeTask: Json | undefined): JsonRecord {
  const ended = trace.ended ?? {};
  const kept = keptOf(ended);
  const verifiers = recordOf(kept['verifiers']) ?? {};
  const head = withRest(traceHeadBack(id, trace.started, episodeTask), trace.started['extra']);
  const body: JsonRecord = {
    ...head,
    ...traceTailBack(ended, trace.started['started'], trace.ended !== null),
    nodes: withLinks(trace),
    calls: inIndexOrder(trace.calls),
    rewards: Object.fromEntries(trace.rewards),
    metrics: Object.fromEntries(trace.metrics),
    errors: trace.errors,
  };
  const whole = withRest(body, kept);
  const merged = (['rewards', 'metrics'] as const).filter((kind) => isRecord(verifiers[kind]));
  const both = merged.map((kind) => [kind, { ...(body[kind] as JsonRecord), ...(verifiers[kind] as JsonRecord) }] as const);
  return inOrder({ ...whole, ...Object.fromEntries<Json>(both) }, TRACE_ORDER);
}

/** Nodes of an imported file say their parents themselves. */
function withLinks({ nodes, links }: TraceParts): JsonRecord[] {
  const linked = new Map(
    [...nodes].map(([index, node]) => {
      const parents = links.get(index);
      return [index, parents === undefined || Object.hasOwn(node, 'semantic_parents') ? node : { ...node, semantic_parents: parents }];
    }),
  );
  return inIndexOrder(linked);
}

function inIndexOrder(items: ReadonlyMap<number, JsonRecord>): JsonRecord[] {
  return [...items].toSorted(([a], [b]) => a - b).map(([, item]) => item);
}

/** Order in which upstream writes the fields; others follow. */
const EPISODE_ORDER = ['id', 'env', 'task', 'group', 'run', 'ok', 'is_timeout', 'errors', 'traces'];
const TRACE_ORDER = [
  'version', 'id', 'verifiers', 'task', 'agent', 'tools', 'nodes', 'calls', 'request_rewrites', 'response_rewrites', 'rewards', 'metrics', 'info',
  'extra_usage', 'is_completed', 'ok', 'stop_condition', 'is_timeout', 'errors', 'timing',
]; // prettier-ignore

function inOrder(record: JsonRecord, order: readonly string[]): JsonRecord {
  const known = order.filter((key) => Object.hasOwn(record, key));
  return compact(
    Object.fromEntries([...known, ...Object.keys(record).filter((key) => !order.includes(key))].map((key) => [key, record[key]])),
  );
}
