/** What a scoring module gets of a rollout: plain values, as they were recorded. Pure. */
import { isMap } from '../../../events/fields.ts';
import type { EventOf, TapedeckEvent } from '../../../events/registry.ts';

export type RewardScope = 'rollout' | 'trace' | 'node';

/** A reward as it stands: the latest event of its name and scope. */
export type StandingReward = {
  readonly scope: RewardScope;
  readonly trace: string | null;
  readonly node: number | null;
  readonly name: string;
  /** Null = not measured. */
  readonly score: number | null;
  readonly weight: number | null;
  readonly source: { readonly kind: string; readonly name: string | null; readonly version: string | null } | null;
  /** The event that assigned it. */
  readonly event: string;
};

export type NodeView = {
  readonly index: number;
  readonly parent: number | null;
  readonly role: string;
  readonly sampled: boolean;
  readonly message: Readonly<Record<string, unknown>> | null;
  /** Number of token ids; null = the engine gave none. */
  readonly tokens: number | null;
};

export type TraceView = {
  readonly trace: string;
  readonly agent: Readonly<Record<string, unknown>> | null;
  readonly ok: boolean | null;
  readonly stopCondition: string | null;
  readonly nodes: readonly NodeView[];
  /** Messages from the root to the last leaf. */
  readonly conversation: readonly Readonly<Record<string, unknown>>[];
  readonly calls: readonly {
    readonly index: number;
    readonly node: number | null;
    readonly model: string | null;
    readonly finishReason: string | null;
    readonly error: string | null;
  }[];
  readonly tools: readonly { readonly toolCallId: string; readonly name: string; readonly error: string | null }[];
};

export type RolloutView = {
  readonly project: string;
  readonly run: string;
  readonly group: string | null;
  readonly rollout: string;
  readonly env: unknown;
  readonly task: unknown;
  readonly ok: boolean | null;
  readonly stopCondition: string | null;
  readonly traces: readonly TraceView[];
  readonly rewards: readonly StandingReward[];
};

/** Events of one rollout in the order of the log. Null when there is no `rollout.started`. */
export function rolloutView(events: readonly TapedeckEvent[]): RolloutView | null {
  const started = events.find((event): event is EventOf<'rollout.started'> => event.type === 'rollout.started');
  if (started === undefined) return null;
  const ended = events.findLast((event): event is EventOf<'rollout.ended'> => event.type === 'rollout.ended');
  const traces = new Set(events.flatMap(({ trace }) => (trace === undefined ? [] : [trace])));
  return {
    project: started.project ?? 'default',
    run: started.run as string,
    group: started.group ?? started.data.group?.id ?? null,
    rollout: started.rollout as string,
    env: started.data.env ?? null,
    task: started.data.task ?? null,
    ok: ended?.data.ok ?? null,
    stopCondition: ended?.data.stopCondition ?? null,
    traces: [...traces].map((trace) =>
      traceView(
        trace,
        events.filter((event) => event.trace === trace),
      ),
    ),
    rewards: standingRewards(events),
  };
}

/** A later event for the same name and scope corrects an earlier one. */
export function standingRewards(events: readonly TapedeckEvent[]): StandingReward[] {
  const standing = new Map<string, StandingReward>();
  for (const event of events) {
    if (event.type !== 'reward.assigned') continue;
    const { data } = event;
    const source = data.source ? { kind: data.source.kind, name: data.source.name ?? null, version: data.source.version ?? null } : null;
    const reward: StandingReward = {
      scope: data.scope, trace: event.trace ?? null, node: data.node ?? null, name: data.name, score: data.score, weight: data.weight ?? null, source, event: event.id,
    }; // prettier-ignore
    standing.set(rewardKey(reward), reward);
  }
  return [...standing.values()];
}

/** Equal keys are one reward, of which the latest counts. */
export function rewardKey({ scope, trace, node, name }: Pick<StandingReward, 'scope' | 'trace' | 'node' | 'name'>): string {
  return JSON.stringify([scope, scope === 'rollout' ? null : trace, scope === 'node' ? node : null, name]);
}

function traceView(trace: string, events: readonly TapedeckEvent[]): TraceView {
  const nodes = new Map<number, NodeView>();
  const calls = new Map<number, TraceView['calls'][number]>();
  const tools: TraceView['tools'][number][] = [];
  let agent: TraceView['agent'] = null;
  let ended: EventOf<'trace.ended'> | null = null;
  for (const event of events) {
    if (event.type === 'trace.started') agent ??= event.data.agent;
    else if (event.type === 'trace.ended') ended = event;
    else if (event.type === 'tool.recorded')
      tools.push({ toolCallId: event.data.toolCallId, name: event.data.name, error: event.data.error?.message ?? null });
    else if (event.type === 'node.appended' && !nodes.has(event.data.index)) nodes.set(event.data.index, nodeView(event));
    else if (event.type === 'call.recorded' && !calls.has(event.data.index)) {
      const { index, node, model, finishReason, error } = event.data;
      calls.set(index, {
        index,
        node: node ?? null,
        model: model ?? null,
        finishReason: finishReason ?? null,
        error: error?.message ?? null,
      });
    }
  }
  const all = [...nodes.values()].toSorted((a, b) => a.index - b.index);
  return {
    trace,
    agent,
    ok: ended?.data.ok ?? null,
    stopCondition: ended?.data.stopCondition ?? null,
    nodes: all,
    conversation: pathTo(all.at(-1), nodes).flatMap(({ message }) => (message === null ? [] : [message])),
    calls: [...calls.values()].toSorted((a, b) => a.index - b.index),
    tools,
  };
}

function nodeView({ data }: EventOf<'node.appended'>): NodeView {
  const { index, parent, role, sampled, message, tokens } = data;
  return { index, parent: parent ?? null, role, sampled, message: isMap(message) ? message : null, tokens: tokens?.ids.length ?? null };
}

/** From the root; a parent is a smaller index, so that this ends. */
function pathTo(leaf: NodeView | undefined, nodes: ReadonlyMap<number, NodeView>): NodeView[] {
  const path: NodeView[] = [];
  for (let node = leaf; node !== undefined; node = node.parent === null ? undefined : nodes.get(node.parent)) path.push(node);
  return path.toReversed();
}
