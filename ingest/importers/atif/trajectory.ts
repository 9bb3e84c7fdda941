/**
 * One trace as an ATIF-v1.7 trajectory: the newest branch of its graph, step by step. Pure. Format: Harbor's RFC 0001 and the models of NVIDIA/NeMo-Agent-Toolkit
 * `packages/nvidia_nat_atif`. Usage counts cached tokens as prompt tokens there, and not here. What an imported trajectory said beyond its events lies in their `extra.atif`
 * and is laid over what they give, so that it comes back equal.
 */
import { compact, itemsOf, recordOf, type Json, type JsonRecord } from '../json-value.ts';
import { nestedRest, withNestedRest } from '../nested-rest.ts';
import { BranchTokens } from './branch-tokens.ts';
import { contentOf, definitionsFrom, definitionsOf, extraWith, isoOf, messageRest, sourceOf, toolCallsOf, type Count, type Source } from './messages.ts'; // prettier-ignore

/** An event of the trace's rollout, decoded with whole floats kept apart. */
export type AtifEvent = { readonly type: string; readonly time: number; readonly trace: string | null; readonly data: JsonRecord };
export type TraceKey = { readonly run: string; readonly rollout: string; readonly trace: string };
type Node = { readonly time: number; readonly data: JsonRecord };
type Step = {
  readonly source: Source;
  readonly node: Node;
  readonly said: JsonRecord;
  readonly own: Json | undefined;
  readonly results: JsonRecord[];
};
export type Trajectory = {
  /** Everything before the steps. */
  readonly head: JsonRecord;
  /** One after the other, since whole prompts are long. */
  readonly steps: Iterable<JsonRecord>;
  /** What comes after the steps; ask when they are read. */
  readonly tail: () => JsonRecord;
};

/** What the events say that a trajectory cannot, by type. Those of other traces are not its matter. */
const NO_PLACE = new Set([
  'reward.assigned',
  'metric.recorded',
  'error.recorded',
  'note.added',
  'link.added',
  'reference.scored',
  'trainer.annotated',
  'trace.ended',
  'rollout.ended',
  'rollout.cancelled',
]);

/** Null when the trace has no message on its newest branch: ATIF wants one step at least. */
export function trajectoryOf(key: TraceKey, events: readonly AtifEvent[], count: Count): Trajectory | null {
  const mine = events.filter(({ trace }) => trace === key.trace || trace === null);
  for (const { type } of mine) if (NO_PLACE.has(type)) count(type);
  const nodes = firstByIndex(mine, 'node.appended');
  const path = newestBranch(nodes);
  count('nodes of other branches', nodes.size - path.length);
  const steps = stepsOf(path, count);
  if (steps.length === 0) return null;
  const started = mine.find(({ type }) => type === 'trace.started')?.data ?? {};
  const rest = keptOf(started);
  const calls = callsByNode(mine, count);
  const totals = new Totals();
  const { final_metrics: _, ...head } = withNestedRest(headOf(key, started), rest);
  return {
    head,
    steps: writtenSteps(steps, path, calls, totals, count),
    tail: () => compact({ final_metrics: withNestedRest({ final_metrics: { ...totals.sums(), total_steps: steps.length } }, rest)['final_metrics'] }),
  };
} // prettier-ignore

function keptOf(data: JsonRecord): Json | undefined {
  return recordOf(data['extra'])?.['atif'];
}

function headOf({ run, rollout, trace }: TraceKey, started: JsonRecord): JsonRecord {
  const agent = recordOf(started['agent']) ?? {};
  const tools = definitionsOf(started['tools']);
  const form = tools === undefined ? null : nestedRest({ tools: started['tools'] as Json }, { tools: definitionsFrom(tools) ?? [] });
  return {
    schema_version: 'ATIF-v1.7',
    session_id: rollout,
    trajectory_id: trace,
    agent: compact({ name: agent['name'] ?? 'agent', version: 'unknown', model_name: agent['model'] ?? undefined, tool_definitions: tools }),
    extra: { run, ...extraWith({ started: form ?? undefined }) },
  };
} // prettier-ignore

function firstByIndex(events: readonly AtifEvent[], type: string): Map<number, Node> {
  const found = new Map<number, Node>();
  for (const event of events) {
    const index = event.type === type ? event.data['index'] : null;
    if (typeof index === 'number' && !found.has(index)) found.set(index, event);
  }
  return found;
}

function newestBranch(nodes: ReadonlyMap<number, Node>): Node[] {
  const path: Node[] = [];
  let at: unknown = nodes.size === 0 ? null : [...nodes.keys()].reduce((a, b) => Math.max(a, b));
  while (typeof at === 'number') {
    const node = nodes.get(at);
    if (node === undefined) break;
    path.push(node);
    const parent = node.data['parent'];
    at = typeof parent === 'number' && parent < at ? parent : null;
  }
  return path.toReversed();
}

/** Tool messages are results of the step before them; everything else is a step. */
function stepsOf(path: readonly Node[], count: Count): Step[] {
  const steps: Step[] = [];
  for (const node of path) {
    const message = recordOf(node.data['message']);
    if (message === null) {
      count('nodes without a message');
      continue;
    }
    const source = sourceOf(message['role'] ?? node.data['role']);
    const before = steps.at(-1);
    if (source === 'tool' && before !== undefined) before.results.push(resultOf(node, message, before, count));
    else steps.push(stepOf(node, message, source === 'tool' ? 'user' : source, count));
  }
  return steps;
}

function stepOf(node: Node, message: JsonRecord, source: Source, count: Count): Step {
  const isAgent = source === 'agent';
  const calls = isAgent ? toolCallsOf(message, count) : [];
  const reasoning = message['reasoning_content'] ?? message['reasoning'];
  const said = compact({
    message: contentOf(message['content'], count),
    reasoning_content: isAgent && typeof reasoning === 'string' ? reasoning : undefined,
    tool_calls: calls.length > 0 ? calls : undefined,
  });
  return { source, node, said, own: messageRest(message, { source, ...said }, false), results: [] };
}

/** ATIF wants a result to answer a call of its step; another id is kept in `extra`. */
function resultOf(node: Node, message: JsonRecord, { node: { time }, said }: Step, count: Count): JsonRecord {
  const id = message['tool_call_id'];
  const isAnswer = typeof id === 'string' && itemsOf(said['tool_calls']).some((call) => recordOf(call)?.['tool_call_id'] === id);
  if (!isAnswer) count('tool results without their call in the step before (the id is kept in extra)');
  const result = { ...(isAnswer && { source_call_id: id }), content: contentOf(message['content'], count) };
  const timestamp = node.time === time ? undefined : isoOf(node.time);
  return { ...result, ...bag(extraWith({ message: messageRest(message, result, true), timestamp })) };
}

function bag(extra: JsonRecord | undefined): { extra?: JsonRecord } {
  return extra === undefined ? {} : { extra };
}

function callsByNode(events: readonly AtifEvent[], count: Count): Map<number, JsonRecord[]> {
  const found = new Map<number, JsonRecord[]>();
  for (const { data } of firstByIndex(events, 'call.recorded').values()) {
    const node = data['node'];
    if (typeof node !== 'number') {
      count('calls without an answer');
      continue;
    }
    found.set(node, [...(found.get(node) ?? []), data]);
  }
  return found;
}

function* writtenSteps(steps: readonly Step[], path: readonly Node[], calls: ReadonlyMap<number, readonly JsonRecord[]>, totals: Totals, count: Count): Generator<JsonRecord> {
  const tokens = new BranchTokens(count);
  let at = 0;
  for (const [i, { source, node, said, own, results }] of steps.entries()) {
    while (path[at] !== node) tokens.add((path[at++] as Node).data);
    const { time, data } = node;
    const isAgent = source === 'agent';
    const streams = tokens.add(data);
    at++;
    if (!isAgent && Object.keys(streams).length > 0) count('sampled tokens of messages that are not of the agent');
    const answers = isAgent ? (calls.get(data['index'] as number) ?? []) : [];
    const usage = usageOf(answers.at(-1));
    if (isAgent) totals.add(usage);
    // the streams are JSON text already: whole prompts as lists of numbers would be held once per step
    const metrics = { ...usage, ...(isAgent ? (streams as unknown as JsonRecord) : {}) };
    yield withNestedRest(compact({
      step_id: i + 1,
      timestamp: isoOf(time),
      source,
      model_name: answers.at(-1)?.['model'] ?? undefined,
      reasoning_effort: recordOf(answers.at(-1)?.['sampling'])?.['reasoning_effort'] ?? undefined,
      ...said,
      observation: results.length > 0 ? { results } : undefined,
      metrics: isAgent && Object.keys(metrics).length > 0 ? metrics : undefined,
      // context that was given to the agent, not sampled by it in this trace
      is_copied_context: isAgent && data['sampled'] !== true ? true : undefined,
      llm_call_count: answers.length > 0 ? answers.length : undefined,
      ...bag(extraWith({ message: own })),
    }), keptOf(data));
  }
} // prettier-ignore

function usageOf(call: JsonRecord | undefined): JsonRecord {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens, cost } = recordOf(call?.['usage']) ?? {};
  return {
    ...(typeof promptTokens === 'number' && { prompt_tokens: promptTokens + (typeof cachedTokens === 'number' ? cachedTokens : 0) }),
    ...(typeof completionTokens === 'number' && { completion_tokens: completionTokens }),
    ...(typeof cachedTokens === 'number' && { cached_tokens: cachedTokens }),
    ...(cost !== null && cost !== undefined && { cost_usd: cost }),
    ...(typeof reasoningTokens === 'number' && { extra: { reasoning_tokens: reasoningTokens } }),
  };
}

const TOTALS = {
  prompt_tokens: 'total_prompt_tokens',
  completion_tokens: 'total_completion_tokens',
  cached_tokens: 'total_cached_tokens',
} as const;

/** Sums of what every step of the agent says; a total of which one step knows nothing is no total. */
class Totals {
  readonly #steps: JsonRecord[] = [];

  add(usage: JsonRecord): void {
    this.#steps.push(usage);
  }

  sums(): JsonRecord {
    const known = Object.entries(TOTALS).filter(([name]) => this.#steps.length > 0 && this.#steps.every((step) => typeof step[name] === 'number'));
    return Object.fromEntries(known.map(([name, total]) => [total, this.#steps.reduce((sum, step) => sum + (step[name] as number), 0)]));
  }
} // prettier-ignore
