/** One trace of a verifiers v1 episode: start, nodes, calls, tool calls, links, rewards, metrics, errors, end. Pure. */
import type { EventList } from './event-list.ts';
import type { Scope } from './event-maker.ts';
import { boolOf, compact, countOf, isList, isRecord, itemsOf, nameOf, numberOf, omit, pick, recordOf, sameJson, textOf, type Json, type JsonRecord } from './json-value.ts'; // prettier-ignore
import { microsOf } from './micros.ts';
import { extraOf, restOf, withAbsent, type Rest } from './rest.ts';
import { toolCallsOf, type GraphNode } from './tool-calls.ts';
import { nodeBack, traceHeadBack, traceTailBack, TRACE_HEAD, TRACE_LISTS } from './verifiers-back.ts';
import { addErrors } from './verifiers-errors.ts';
import {
  callBack,
  callFrom,
  latestOf,
  metricBack,
  outcomeFrom,
  rewardBack,
  rewardFrom,
  timingFrom,
  truncatedOf,
} from './verifiers-parts.ts';
import { STREAM_FIELDS, tokensFromRecord } from './verifiers-tokens.ts';

const LINK_TYPES = new Set(['continuation', 'compaction_attempt', 'compaction', 'subagent_call', 'subagent_return', 'agent_message', 'subagent_cancel']); // prettier-ignore

/** Where a trace lies: its ids, the episode it belongs to, and the time for what has none of its own. */
export type TraceContext = { readonly scope: Scope; readonly episode: JsonRecord; readonly base: number };

export function traceEvents(trace: JsonRecord, context: TraceContext, list: EventList): void {
  const { scope } = context;
  const timing = timingFrom(trace['timing']);
  const started = microsOf(numberOf(recordOf(trace['timing'])?.['start']));
  const ended = latestOf(timing);
  const begin = started ?? context.base;

  list.add(scope, 'trace.started', '', begin, traceStarted(trace, context, started));
  const last = addNodes(trace, { ...context, base: begin }, list);
  addCalls(trace, { ...context, base: begin }, list);
  const close = ended ?? last;
  const scored = numberOf(recordOf(timing['scoring'])?.['end']) ?? close;
  const left = { ...addRewards(trace, scope, scored, list), ...addMetrics(trace, scope, scored, list) };
  addErrors(itemsOf(trace['errors']), 'trace', scope, close, list);
  list.add(scope, 'trace.ended', '', close, traceEnded(trace, timing, { started, ended }, left));
}

function traceStarted(trace: JsonRecord, { scope, episode }: TraceContext, started: number | null): JsonRecord {
  const agent = recordOf(trace['agent']);
  const config = agent?.['config'];
  const tools = itemsOf(trace['tools']);
  const data = compact({
    agent: compact({
      name: nameOf(agent?.['name']) ?? undefined,
      model: nameOf(recordOf(config)?.['model']) ?? undefined,
      trainable: boolOf(agent?.['trainable']) ?? undefined,
      config,
    }),
    runtime: agent?.['runtime'],
    tools: isList(trace['tools']) && tools.length <= 100_000 && tools.every(isRecord) ? tools : undefined,
    started: started ?? undefined,
  });
  const rebuilt = traceHeadBack(scope.trace as string, data, episode['task']);
  return compact({ ...data, extra: extraOf(restOf(pick(trace, TRACE_HEAD), rebuilt)) });
}

function traceEnded(
  trace: JsonRecord,
  timing: JsonRecord,
  times: { started: number | null; ended: number | null },
  left: JsonRecord,
): JsonRecord {
  const outcome = outcomeFrom(trace);
  const calls = itemsOf(trace['calls']);
  const data = compact({
    ...outcome,
    truncated: truncatedOf(outcome.stopCondition ?? null, calls) ?? undefined,
    counts: { nodes: itemsOf(trace['nodes']).length, calls: calls.length },
    timing,
    started: times.started ?? undefined,
    ended: times.ended ?? undefined,
  });
  const asEvents = TRACE_LISTS.filter((key) => isList(trace[key]) || isRecord(trace[key]));
  const tail = { ...omit(trace, new Set([...TRACE_HEAD, ...asEvents])), ...left };
  const rest = restOf(tail, traceTailBack(data, times.started, true));
  return compact({ ...data, extra: extraOf(withAbsent(rest, trace, TRACE_LISTS)) });
}

/** Adds the nodes, their tool calls and links; returns the time of the last node. */
function addNodes(trace: JsonRecord, { scope, episode, base }: TraceContext, list: EventList): number {
  const nodes = itemsOf(trace['nodes']) as readonly JsonRecord[];
  const calls = callOfNode(trace);
  const policy = fixedPolicy(episode);
  const parents = new Set<number | null>();
  const graph: GraphNode[] = [];
  let time = base;
  for (const [index, node] of nodes.entries()) {
    const parent = parentOf(node, index, list);
    const message = recordOf(node['message']);
    const sampled = boolOf(node['sampled']);
    if (message === null) list.warn('nodes.message', 'no object: the node has no message');
    if (sampled === null) list.warn('nodes.sampled', 'no boolean: taken as false');
    time = microsOf(numberOf(node['timestamp'])) ?? time;
    const forks = parents.has(parent);
    parents.add(parent);
    graph.push({ parent, sampled: sampled === true, message });
    const { tokens, extra, problems } = tokensFromRecord(node);
    for (const problem of problems) list.warn(`nodes.${problem.split(':', 1)[0]}`, problem);
    const data = compact({
      index,
      parent: parent ?? undefined,
      role: nameOf(message?.['role'], 64) ?? 'unknown',
      message: message ?? undefined,
      sampled: sampled === true,
      ...(tokens !== null && { tokens: tokens as JsonRecord }),
      policyVersion: sampled === true ? policy : undefined,
      call: calls.get(index),
      forkReason: forks ? 'unknown' : undefined,
    });
    const rest = restOf(omit(node, STREAM_FIELDS), nodeBack(time, data));
    list.add(scope, 'node.appended', `node/${index}`, time, compact({ ...data, extra: merged(rest, extra) }));
  }
  addTools(graph, scope, base, list);
  addLinks(nodes, scope, base, list);
  return time;
}

/** The rest of the node and the rest of its streams in one `extra`. */
function merged(rest: Rest, streams: JsonRecord): JsonRecord | undefined {
  const verifiers = { ...rest.verifiers, ...recordOf(streams['verifiers']) };
  const absent = [...(rest.absent ?? []), ...itemsOf(streams['absent'])];
  return extraOf({
    ...(Object.keys(verifiers).length > 0 && { verifiers }),
    ...(absent.length > 0 && { absent }),
    ...(streams['doubles'] !== undefined && { doubles: streams['doubles'] }),
  });
}

function parentOf(node: JsonRecord, index: number, list: EventList): number | null {
  const { parent } = node;
  if (parent === undefined || parent === null) return null;
  const at = countOf(parent);
  if (at !== null && at < index) return at;
  list.warn('nodes.parent', 'not the index of an earlier node: taken as a root');
  return null;
}

/** The first call that made each node. */
function callOfNode(trace: JsonRecord): Map<number, number> {
  const made = new Map<number, number>();
  for (const [index, call] of itemsOf(trace['calls']).entries()) {
    const node = countOf((call as JsonRecord)['node']);
    if (node !== null && !made.has(node)) made.set(node, index);
  }
  return made;
}

/** The policy version of every token, when the episode began and ended under the same one. */
function fixedPolicy(episode: JsonRecord): number | undefined {
  const policy = recordOf(recordOf(recordOf(episode['run'])?.['work'])?.['policy']);
  const [start, end] = [countOf(policy?.['start']), countOf(policy?.['end'])];
  return start !== null && start === end ? start : undefined;
}

function addTools(graph: readonly GraphNode[], scope: Scope, time: number, list: EventList): void {
  for (const { toolCallId, name, node, resultNode } of toolCallsOf(graph)) {
    const data = compact({ toolCallId, node, name, resultNode: resultNode ?? undefined });
    list.add(scope, 'tool.recorded', `tool/${node}/${toolCallId}`, time, data);
  }
}

/** Semantic edges of verifiers 0.4.0: `semantic_parents` of a node. */
function addLinks(nodes: readonly JsonRecord[], scope: Scope, time: number, list: EventList): void {
  const trace = scope.trace as string;
  for (const [index, node] of nodes.entries()) {
    for (const [i, link] of itemsOf(node['semantic_parents']).entries()) {
      const type = textOf(recordOf(link)?.['type']);
      const from = countOf(recordOf(link)?.['node']);
      if (type === null || !LINK_TYPES.has(type) || from === null || from >= nodes.length) {
        list.warn('nodes.semantic_parents', 'not a known link to a node of the trace: kept, but no link');
        continue;
      }
      const data = { from: { trace, node: from }, to: { trace, node: index }, type };
      list.add(scope, 'link.added', `link/${index}/${i}`, time, data);
    }
  }
}

function addCalls(trace: JsonRecord, { scope, episode, base }: TraceContext, list: EventList): void {
  const policy = fixedPolicy(episode);
  for (const [index, item] of itemsOf(trace['calls']).entries()) {
    const call = item as JsonRecord;
    const data = compact({ index, ...callFrom(call), policyVersion: policy });
    const span = recordOf(data['time']);
    const time = numberOf(span?.['end']) ?? numberOf(span?.['start']) ?? base;
    list.add(scope, 'call.recorded', `call/${index}`, time, compact({ ...data, extra: extraOf(restOf(call, callBack(data))) }));
  }
}

/** Adds what has a usable name; returns the entries that do not, to be kept whole. */
function addRewards(trace: JsonRecord, scope: Scope, time: number, list: EventList): JsonRecord {
  const left: [string, Json][] = [];
  for (const [name, reward] of Object.entries(recordOf(trace['rewards']) ?? {})) {
    if (!usableName(name, 'rewards', list)) {
      left.push([name, reward]);
      continue;
    }
    const data = rewardFrom(reward);
    if (reward !== null && data.score === null && recordOf(reward)?.['score'] !== null)
      list.warn('rewards.score', 'no number: the score is null');
    const extra = sameJson(reward, rewardBack(data)) ? undefined : { verifiers: reward };
    list.add(scope, 'reward.assigned', `reward/${name}`, time, compact({ scope: 'trace', name, ...data, extra }));
  }
  return left.length > 0 ? { rewards: Object.fromEntries(left) } : {};
}

function addMetrics(trace: JsonRecord, scope: Scope, time: number, list: EventList): JsonRecord {
  const left: [string, Json][] = [];
  for (const [name, metric] of Object.entries(recordOf(trace['metrics']) ?? {})) {
    if (!usableName(name, 'metrics', list)) {
      left.push([name, metric]);
      continue;
    }
    const data = { value: numberOf(metric) };
    if (metric !== null && data.value === null) list.warn('metrics', 'no number: the value is null');
    const extra = sameJson(metric, metricBack(data)) ? undefined : { verifiers: metric };
    list.add(scope, 'metric.recorded', `metric/${name}`, time, compact({ scope: 'trace', name, ...data, extra }));
  }
  return left.length > 0 ? { metrics: Object.fromEntries(left) } : {};
}

function usableName(name: string, field: string, list: EventList): boolean {
  if (nameOf(name) !== null) return true;
  list.warn(field, 'a name must have 1 to 1024 characters: kept, but not queryable');
  return false;
}
