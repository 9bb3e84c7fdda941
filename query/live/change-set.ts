/** What happened in one topic since the last message, put together: lists where they are short, counts always. */
import type { TapedeckEvent } from '../../events/registry.ts';
import { floatText } from '../traces/json-float.ts';
import { topicText, type LiveTopic } from './live-topic.ts';
import { TraceChanges } from './trace-changes.ts';

/** Entries of each list in one message; what is left out is counted in `omitted`. */
const MAX_LIST = 1_000;

type RolloutChange = {
  state?: string;
  group?: string;
  readonly traces: Map<string, TraceChanges>;
  readonly rewards: Map<string, object>;
  errors: number;
};

export class ChangeSet {
  readonly #topic: LiveTopic;
  readonly #rollouts = new Map<string, RolloutChange>();
  readonly #lists: Record<string, object[]> = {};
  readonly #omitted: Record<string, number> = {};
  readonly #metrics = new Map<string, unknown>();
  #state: object | null = null;
  #events = 0;

  constructor(topic: LiveTopic) {
    this.#topic = topic;
  }

  get isEmpty(): boolean {
    return this.#events === 0;
  }

  add(event: TapedeckEvent): void {
    this.#events++;
    if (this.#topic.kind === 'runs') return this.#push('runs', { run: event.run, type: event.type });
    if (event.rollout !== undefined) return this.#addToRollout(event, event.rollout);
    switch (event.type) {
      case 'run.started':
        this.#state = { type: event.type, kind: event.data.kind, name: event.data.name ?? null };
        return;
      case 'run.ended':
        this.#state = { type: event.type, status: event.data.status ?? null };
        return;
      case 'run.deleted':
        this.#state = { type: event.type };
        return;
      case 'policy.published':
        return this.#push('policies', { version: event.data.version, step: event.data.step ?? null });
      case 'trainer.stepped':
        return this.#push('steps', { step: event.data.step, feed: event.data.feed ?? null, metrics: plainJson(event.data.metrics) });
      case 'group.sealed':
        return this.#push('groups', { group: event.group, type: event.type });
      case 'metric.recorded':
        this.#metrics.set(event.data.name, event.data.value === null ? null : floatText(event.data.value));
        return;
      default:
        return this.#push('others', others(event));
    }
  }

  #addToRollout(event: TapedeckEvent, id: string): void {
    let rollout = this.#rollouts.get(id);
    if (rollout === undefined) this.#rollouts.set(id, (rollout = { traces: new Map(), rewards: new Map(), errors: 0 }));
    if (event.group !== undefined) rollout.group = event.group;
    if (event.type === 'rollout.started' || event.type === 'rollout.ended' || event.type === 'rollout.cancelled') {
      rollout.state = event.type.slice('rollout.'.length);
      if (event.type === 'rollout.started' && event.data.group?.id !== undefined) rollout.group = event.data.group.id;
    } else if (event.type === 'reward.assigned') {
      const { scope, node, name, score, weight } = event.data;
      const shown = { scope, trace: scope === 'rollout' ? null : (event.trace ?? null), node: node ?? null, name, score: score === null ? null : floatText(score), weight: weight ?? 1 };
      rollout.rewards.set(JSON.stringify([scope, event.trace, node, name]), shown);
    } else if (event.trace !== undefined) {
      let trace = rollout.traces.get(event.trace);
      if (trace === undefined) rollout.traces.set(event.trace, (trace = new TraceChanges(this.#topic.kind !== 'run')));
      trace.add(event);
    } else if (event.type === 'error.recorded') rollout.errors++;
    else this.#push('others', others(event));
  } // prettier-ignore

  #push(list: string, entry: object): void {
    const entries = (this.#lists[list] ??= []);
    if (entries.length < MAX_LIST) entries.push(entry);
    else this.#omitted[list] = (this.#omitted[list] ?? 0) + 1;
  }

  toJSON(): object {
    const rollouts = [...this.#rollouts].slice(0, MAX_LIST).map(([rollout, { state, group, traces, rewards, errors }]) => ({
      rollout,
      ...(group === undefined ? {} : { group }),
      ...(state === undefined ? {} : { state }),
      ...(errors === 0 ? {} : { errors }),
      ...(rewards.size === 0 ? {} : { rewards: [...rewards.values()] }),
      ...(traces.size === 0 ? {} : { traces: [...traces].map(([trace, changes]) => ({ trace, ...changes.toJSON() })) }),
    }));
    if (this.#rollouts.size > MAX_LIST) this.#omitted['rollouts'] = this.#rollouts.size - MAX_LIST;
    return {
      topic: topicText(this.#topic),
      events: this.#events,
      ...(this.#state === null ? {} : { state: this.#state }),
      ...this.#lists,
      ...(this.#metrics.size === 0 ? {} : { metrics: Object.fromEntries(this.#metrics) }),
      ...(rollouts.length === 0 ? {} : { rollouts }),
      ...(Object.keys(this.#omitted).length === 0 ? {} : { omitted: this.#omitted }),
    };
  }
}

/** Feed decisions and the rest: type and the fields that say which. */
function others(event: TapedeckEvent): object {
  const data = event.data as Record<string, unknown>;
  const shown = ['feed', 'timeline', 'n', 'batchId', 'step', 'holder', 'group', 'reason', 'scope', 'label', 'name', 'rollout', 'trace', 'leaf', 'from', 'to', 'mode'];
  const fields = shown.flatMap((name) => (isSmall(data[name]) ? [[name, data[name]] as const] : []));
  return { type: event.type, ...Object.fromEntries(fields) };
} // prettier-ignore

function isSmall(value: unknown): boolean {
  return typeof value === 'number' || typeof value === 'boolean' || (typeof value === 'string' && value.length <= 512);
}

/** Numbers that JSON lacks as elsewhere, other values as they are; bigints as strings. */
function plainJson(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(record)
      .slice(0, MAX_LIST)
      .flatMap(([name, value]) => {
        if (typeof value === 'number') return [[name, floatText(value)]];
        if (typeof value === 'bigint') return [[name, value.toString()]];
        return value === null || isSmall(value) ? [[name, value]] : [];
      }),
  );
}

/** Adds an event. One that is not what its type says is nobody's news: the projector names it a dead letter. */
export function tell(changes: ChangeSet, event: TapedeckEvent): void {
  try {
    changes.add(event);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
}
