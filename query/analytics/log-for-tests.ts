/** A log of several partitions for tests: events are stored as the projector stores them, so that every position on the way can be asked about. */
import { EVENT_TYPES } from '../../events/registry.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { insertEvents, storeEvent, type Draft } from '../../store/columns/projections/test-world.ts';
import { refreshSummaries } from '../../store/columns/summaries.ts';
import { formatPosition } from './as-of.ts';

const PARTITIONS = 3;

/** An event where it lies; partitions as the store numbers them. */
export type Placed = { readonly draft: Draft; readonly partition: number; readonly offset: number };

export type TestLog = {
  /** Appends and stores events; answers the position behind them. */
  append(drafts: readonly Draft[], project?: string): Promise<string>;
  position(): string;
  /** Everything appended so far, in the order it was appended. */
  readonly events: readonly Placed[];
};

/** The same rollout always lies in the same partition, as in a real log. */
function partitionOf({ rollout, group, run }: Draft): number {
  let hash = 7;
  for (const character of rollout ?? group ?? run ?? '') hash = (hash * 31 + character.charCodeAt(0)) >>> 0;
  return hash % PARTITIONS;
}

export function testLog(store: ColumnStore): TestLog {
  const next = new Map<number, number>();
  const events: Placed[] = [];
  let seed = 1;
  const position = (): string => formatPosition(new Map([...next].map(([partition, offset]) => [partition, offset - 1])));
  return {
    position,
    events,
    append: async (drafts, project = 'default') => {
      const stored = drafts.map((draft) => {
        const isFeed = EVENT_TYPES[draft.type].topic === 'feeds';
        const partition = isFeed ? 0 : partitionOf(draft);
        const key = isFeed ? 32_768 : partition;
        const offset = next.get(key) ?? 0;
        next.set(key, offset + 1);
        events.push({ draft, partition: key, offset });
        return storeEvent(draft, { project, partition, offset, seed: seed++ });
      });
      const block = await insertEvents(store, stored);
      await refreshSummaries(store, block.touched, { version: [...next.values()].reduce((sum, offset) => sum + offset, 0) });
      return position();
    },
  };
}

export type RolloutDraft = {
  readonly run: string;
  readonly rollout: string;
  readonly task: string;
  readonly env?: string;
  readonly group?: string;
  readonly size?: number;
  /** Undefined: no reward event; null: a reward without a score. */
  readonly score?: number | null;
  readonly rewards?: Readonly<Record<string, number | null>>;
  readonly ok?: boolean | null;
  readonly running?: boolean;
  readonly cancelled?: 'stale' | 'overload' | 'user' | 'superseded';
  readonly version?: number;
  readonly step?: number;
  readonly hash?: string | null;
};

/** The events of one finished rollout. */
export function rolloutEvents(draft: RolloutDraft): Draft[] {
  const { run, rollout, task, env = 'sums', group, size, version, step } = draft;
  const key = { run, rollout, ...(group === undefined ? {} : { group }) };
  const trace = { ...key, trace: `t-${run}-${rollout}` };
  const hash = draft.hash === null ? {} : { hash: draft.hash ?? `h-${task}` };
  const rewards = { ...(draft.score === undefined ? {} : { correct: draft.score }), ...draft.rewards };
  const started = {
    env: { id: env },
    task: { key: task, ...hash },
    ...(group === undefined ? {} : { group: { id: group, ...(size === undefined ? {} : { size }) } }),
    ...(version === undefined ? {} : { policyVersion: version }),
    ...(step === undefined ? {} : { work: { type: 'train', step } }),
  };
  const message = (role: string, content: string): object => ({ role, content });
  return [
    { type: 'rollout.started', ...key, data: started },
    { type: 'trace.started', ...trace, data: { agent: { name: 'solver', model: 'm', trainable: true } } },
    { type: 'node.appended', ...trace, data: { index: 0, role: 'user', sampled: false, message: message('user', task) } },
    { type: 'node.appended', ...trace, data: { index: 1, parent: 0, role: 'assistant', sampled: true, message: message('assistant', 'x'), ...(version === undefined ? {} : { policyVersion: version }) } },
    ...Object.entries(rewards).map(([name, score]): Draft => ({ type: 'reward.assigned', ...trace, data: { scope: 'trace', name, score, weight: name === 'correct' ? 1 : 0 } })),
    ...(draft.cancelled === undefined ? [] : [{ type: 'rollout.cancelled', ...key, data: { reason: draft.cancelled } } as const]),
    ...(draft.running === true || draft.cancelled !== undefined ? [] : [{ type: 'trace.ended', ...trace, data: { ok: true, stopCondition: 'done' } }, { type: 'rollout.ended', ...key, data: { ok: draft.ok === undefined ? true : draft.ok } }] as const),
  ];
} // prettier-ignore
