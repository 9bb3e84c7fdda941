/** A rollout as a tape: its calls in order, and what is needed to play them. Pure. */
import { TapedeckError } from '../../../base/errors.ts';
import type { EventOf, TapedeckEvent } from '../../../events/registry.ts';
import { GraphDraft, withRebuilt } from './rebuilt-call.ts';
import { recordedCall, type RecordedCall } from './recorded-call.ts';

export type Tape = {
  readonly project: string;
  readonly run: string;
  readonly rollout: string;
  readonly started: EventOf<'rollout.started'>['data'] | null;
  /** Traces in the order in which they began. */
  readonly traces: readonly TapeTrace[];
  /** All calls, by start; those of one trace by their ordinal. */
  readonly calls: readonly RecordedCall[];
  readonly isEnded: boolean;
};

export type TapeTrace = {
  readonly trace: string;
  readonly agent: string | null;
  readonly calls: readonly RecordedCall[];
  /** How many of them the record holds as calls; the others are those behind sampled nodes. */
  readonly recorded: number;
  /** Parent of each node, by index. */
  readonly parents: ReadonlyMap<number, number | null>;
};

export type TapeOptions = {
  /** Take a rollout that has not ended as it is. */
  readonly partial: boolean;
};

/**
 * Events of one rollout, in any order. Throws `not_found` when there is none, `rollout_running` when it has not ended or the counts at its end say that events are
 * still missing: the message names the remedy.
 */
export function tapeOf(events: readonly TapedeckEvent[], { partial }: TapeOptions): Tape {
  const [first] = events;
  const rollout = first?.rollout;
  if (first === undefined || rollout === undefined) throw new TapedeckError('not_found', 'there are no events to replay');
  const traces = tracesOf(events);
  const isEnded = events.some(({ type }) => type === 'rollout.ended' || type === 'rollout.cancelled');
  if (!partial) {
    if (!isEnded) throw running(rollout, 'it has not ended');
    for (const event of events) if (event.type === 'trace.ended') checkCounts(rollout, event, traces);
  }
  const started = events.find((event): event is EventOf<'rollout.started'> => event.type === 'rollout.started');
  const calls = mergedByStart([...traces.values()].map((trace) => trace.calls));
  return {
    project: first.project ?? 'default',
    run: first.run as string,
    rollout,
    started: started?.data ?? null,
    traces: [...traces.values()],
    calls,
    isEnded,
  };
}

function running(rollout: string, why: string): TapedeckError {
  return new TapedeckError(
    'rollout_running',
    `rollout ${rollout} cannot be replayed yet: ${why}. Wait for it, end it with POST /v1/rollouts/${encodeURIComponent(rollout)}/end, or replay what is there with --partial`,
    { details: { rollout } },
  );
}

function checkCounts(rollout: string, { trace, data }: EventOf<'trace.ended'>, traces: ReadonlyMap<string, TapeTrace>): void {
  const { counts } = data;
  if (counts === undefined || counts === null) return;
  const found = traces.get(trace as string)?.recorded ?? 0;
  if (found < counts.calls)
    throw running(rollout, `trace ${trace as string} had ${counts.calls} calls at its end, of which ${found} are stored so far`);
}

function tracesOf(events: readonly TapedeckEvent[]): Map<string, TapeTrace> {
  type Draft = {
    agent: string | null;
    calls: Map<number, EventOf<'call.recorded'>>;
    parents: Map<number, number | null>;
    graph: GraphDraft;
  };
  const drafts = new Map<string, Draft>();
  const of = (trace: string): Draft => {
    const known = drafts.get(trace);
    if (known !== undefined) return known;
    const made: Draft = { agent: null, calls: new Map(), parents: new Map(), graph: new GraphDraft() };
    drafts.set(trace, made);
    return made;
  };
  for (const event of events) {
    if (event.trace === undefined) continue;
    of(event.trace).graph.add(event);
    if (event.type === 'trace.started') of(event.trace).agent ??= event.data.agent.name ?? null;
    if (event.type === 'node.appended') {
      const { parents } = of(event.trace);
      if (!parents.has(event.data.index)) parents.set(event.data.index, event.data.parent ?? null);
    }
    if (event.type !== 'call.recorded') continue;
    const { calls } = of(event.trace);
    // the first of an index wins, as everywhere
    if (!calls.has(event.data.index)) calls.set(event.data.index, event);
  }
  return new Map(
    [...drafts].map(([trace, { agent, calls: events, parents, graph }]) => {
      const recorded = [...events.values()].map(recordedCall).toSorted((a, b) => a.index - b.index);
      const calls = withRebuilt(recorded, graph.graph(trace), (index) => events.get(index)?.data ?? null);
      return [trace, { trace, agent, parents, calls, recorded: recorded.length }];
    }),
  );
}

/** Lists in their own order, merged by start: the earliest head first. */
function mergedByStart(lists: readonly (readonly RecordedCall[])[]): RecordedCall[] {
  const heads = lists.map(() => 0);
  const merged: RecordedCall[] = [];
  for (;;) {
    let next = -1;
    for (const [i, list] of lists.entries()) {
      const call = list[heads[i] as number];
      const best = next < 0 ? undefined : lists[next]?.[heads[next] as number];
      if (call !== undefined && (best === undefined || call.start < best.start)) next = i;
    }
    if (next < 0) return merged;
    merged.push((lists[next] as readonly RecordedCall[])[heads[next] as number] as RecordedCall);
    heads[next] = (heads[next] as number) + 1;
  }
}
