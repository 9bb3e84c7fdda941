/**
 * One trace as an ATIF-v1.7 trajectory: the newest branch of its graph, step by step. Pure. Format: Harbor's RFC 0001 and the models of NVIDIA/NeMo-Agent-Toolkit
 * `packages/nvidia_nat_atif`. Usage counts cached tokens as prompt tokens there, and not here.
 */
import {
  contentOf,
  dataOf,
  definitionsOf,
  isoOf,
  sourceOf,
  toolCallsOf,
  type AtifToolCall,
  type Count,
  type Source,
} from './atif-messages.ts';
import { BranchTokens } from './atif-tokens.ts';

type Data = Readonly<Record<string, unknown>>;
/** An event of the trace's rollout, decoded with whole floats kept apart. */
export type AtifEvent = { readonly type: string; readonly time: number; readonly trace: string | null; readonly data: Data };
type Node = { readonly time: number; readonly data: Data };
type Result = { source_call_id?: string; content: unknown };
type Step = {
  readonly source: Source;
  readonly node: Node;
  readonly message: unknown;
  readonly calls: readonly AtifToolCall[];
  readonly results: Result[];
};
export type Trajectory = {
  /** Everything before the steps. */
  readonly head: Data;
  /** One after the other, since whole prompts are long. */
  readonly steps: Iterable<Data>;
  /** What comes after the steps; ask when they are read. */
  readonly tail: () => Data;
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
export function trajectoryOf(key: { readonly run: string; readonly rollout: string; readonly trace: string }, events: readonly AtifEvent[], count: Count): Trajectory | null {
  const mine = events.filter(({ trace }) => trace === key.trace || trace === null);
  for (const { type } of mine) if (NO_PLACE.has(type)) count(type);
  const nodes = firstByIndex(mine, 'node.appended');
  const path = newestBranch(nodes);
  count('nodes of other branches', nodes.size - path.length);
  const steps = stepsOf(path, count);
  if (steps.length === 0) return null;
  const started = mine.find(({ type }) => type === 'trace.started')?.data ?? {};
  const agent = dataOf(started['agent']) ?? {};
  const calls = callsByNode(mine, count);
  const totals = new Totals();
  return {
    head: {
      schema_version: 'ATIF-v1.7',
      session_id: key.rollout,
      trajectory_id: key.trace,
      agent: { name: agent['name'] ?? 'agent', version: 'unknown', model_name: agent['model'] ?? undefined, tool_definitions: definitionsOf(started['tools']) },
      extra: { run: key.run },
    },
    steps: writtenSteps(steps, path, calls, totals, count),
    tail: () => ({ final_metrics: { ...totals.sums(), total_steps: steps.length } }),
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
    const message = dataOf(node.data['message']);
    if (message === null) {
      count('nodes without a message');
      continue;
    }
    const source = sourceOf(message['role'] ?? node.data['role']);
    const before = steps.at(-1);
    if (source === 'tool' && before?.source === 'agent') {
      const id = message['tool_call_id'];
      const isAnswer = typeof id === 'string' && before.calls.some((call) => call.tool_call_id === id);
      if (!isAnswer) count('tool results without their call in the step before');
      before.results.push({ ...(isAnswer && { source_call_id: id }), content: contentOf(message['content'], count) });
      continue;
    }
    if (source === 'tool') count('tool results without a step before (written as steps of the user)');
    const calls = source === 'agent' ? toolCallsOf(message, count) : [];
    steps.push({ source: source === 'tool' ? 'user' : source, node, message: contentOf(message['content'], count), calls, results: [] });
  }
  return steps;
}

function callsByNode(events: readonly AtifEvent[], count: Count): Map<number, Data[]> {
  const found = new Map<number, Data[]>();
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

function* writtenSteps(steps: readonly Step[], path: readonly Node[], calls: ReadonlyMap<number, readonly Data[]>, totals: Totals, count: Count): Generator<Data> {
  const tokens = new BranchTokens(count);
  let at = 0;
  for (const [i, step] of steps.entries()) {
    while (path[at] !== step.node) tokens.add((path[at++] as Node).data);
    const { time, data } = step.node;
    const isAgent = step.source === 'agent';
    const streams = tokens.add(data);
    at++;
    if (!isAgent && Object.keys(streams).length > 0) count('sampled tokens of messages that are not of the agent');
    const answers = calls.get(data['index'] as number) ?? [];
    const usage = usageOf(answers.at(-1));
    if (isAgent) totals.add(usage);
    const message = dataOf(data['message']) ?? {};
    const reasoning = message['reasoning_content'] ?? message['reasoning'];
    const metrics = { ...usage, ...(isAgent ? streams : {}) };
    yield {
      step_id: i + 1,
      timestamp: isoOf(time),
      source: step.source,
      model_name: isAgent ? (answers.at(-1)?.['model'] ?? undefined) : undefined,
      message: step.message,
      reasoning_content: isAgent && typeof reasoning === 'string' ? reasoning : undefined,
      tool_calls: step.calls.length > 0 ? step.calls : undefined,
      observation: step.results.length > 0 ? { results: step.results } : undefined,
      metrics: isAgent && Object.keys(metrics).length > 0 ? metrics : undefined,
      // context that was given to the agent, not sampled by it in this trace
      is_copied_context: isAgent && data['sampled'] !== true ? true : undefined,
      llm_call_count: isAgent && answers.length > 0 ? answers.length : undefined,
    };
  }
} // prettier-ignore

type Usage = {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly cached_tokens?: number;
  readonly cost_usd?: unknown;
};

function usageOf(call: Data | undefined): Usage {
  const usage = dataOf(call?.['usage']) ?? {};
  const { promptTokens, completionTokens, cachedTokens, cost } = usage;
  return {
    ...(typeof promptTokens === 'number' && { prompt_tokens: promptTokens + (typeof cachedTokens === 'number' ? cachedTokens : 0) }),
    ...(typeof completionTokens === 'number' && { completion_tokens: completionTokens }),
    ...(typeof cachedTokens === 'number' && { cached_tokens: cachedTokens }),
    ...(cost !== null && cost !== undefined && { cost_usd: cost }),
  };
}

const TOTALS = {
  prompt_tokens: 'total_prompt_tokens',
  completion_tokens: 'total_completion_tokens',
  cached_tokens: 'total_cached_tokens',
} as const;

/** Sums of what every step of the agent says; a total of which one step knows nothing is no total. */
class Totals {
  readonly #steps: Usage[] = [];

  add(usage: Usage): void {
    this.#steps.push(usage);
  }

  sums(): Record<string, number> {
    const known = Object.entries(TOTALS).filter(([name]) => this.#steps.length > 0 && this.#steps.every((step) => typeof step[name as keyof typeof TOTALS] === 'number'));
    return Object.fromEntries(known.map(([name, total]) => [total, this.#steps.reduce((sum, step) => sum + (step[name as keyof typeof TOTALS] as number), 0)]));
  }
} // prettier-ignore
