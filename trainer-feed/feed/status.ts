/** Where a feed stands, for people and for whoever waits: frontier, depth, what the next batch waits for and since when, who has gone silent. */
import { stalenessOf } from '../cut/staleness.ts';
import type { GroupState } from '../groups/group-states.ts';
import { endOf } from '../groups/rollout-facts.ts';
import { lastCut, poolOf, type Checkpoint, type Lease } from './decision-state.ts';
import type { FeedEngine } from './engine.ts';
import type { FeedFold } from './fold.ts';
import { stateOfGroup } from './group-decisions.ts';
import { isSilent, type CutWait } from './next-cut.ts';
import { policyVersionOf } from './policy-version.ts';
import { groupPolicyOf } from './spec.ts';

/** Times in microseconds. */
export type Pending = CutWait & {
  readonly since: number;
  /** Events of the log that are not read yet. */
  readonly behind: number;
  readonly silentProducers: readonly SilentProducer[];
};

/** A producer whose rollouts run and who has said nothing for longer than rolloutExpirySeconds. */
export type SilentProducer = {
  readonly producer: string | null;
  readonly run: string;
  readonly rollouts: number;
  readonly lastHeard: number;
};

export type Oldest = {
  readonly group: string;
  readonly run: string;
  readonly state: GroupState;
  readonly since: number;
  readonly waitsFor: readonly string[];
  readonly deadline: number;
};

export type FeedStatus = {
  readonly feed: string;
  readonly project: string;
  readonly timeline: number;
  readonly committed: number;
  readonly cut: number;
  readonly ended: boolean;
  readonly deleted: boolean;
  readonly trouble: string | null;
  readonly lease: Lease | null;
  readonly next: Pending | null;
  /** What lies in the pool. */
  readonly depth: { readonly groups: number; readonly rollouts: number; readonly rows: number; readonly tokens: number };
  readonly groups: Readonly<Record<Exclude<GroupState, 'failed'>, number>>;
  readonly oldestWaiting: Oldest | null;
  /** Groups in the pool by the age their oldest token would have in the next batch. */
  readonly staleness: readonly (readonly [staleness: number, groups: number])[];
  readonly frontier: {
    readonly positions: readonly number[];
    readonly behind: number;
    readonly caughtUp: boolean;
    readonly paused: boolean;
  };
  readonly policyVersion: number | null;
  /** Optimizer steps whose weights were not published yet. */
  readonly publishLag: number | null;
  readonly checkpoints: readonly Checkpoint[];
  readonly rewinds: readonly { readonly timeline: number; readonly to: number }[];
  readonly skippedRollouts: { readonly work: number; readonly unlabelled: number; readonly env: number };
  readonly left: Readonly<Record<string, { readonly rollouts: number; readonly tokens: number }>>;
  /** What was left out, by length: entry i counts lengths from 2^(i-1) up to, not including, 2^i. */
  readonly leftByLength: readonly number[];
  readonly failedGroups: Readonly<Record<string, number>>;
  readonly silentProducers: readonly SilentProducer[];
};

/** `ends`: where the partitions of the log end. */
export function pendingOf(engine: FeedEngine, fold: FeedFold, ends: readonly number[], now: number): Pending | null {
  const { wait } = engine.view;
  if (wait === null) return null;
  const last = fold.decisions.batches.get(lastCut(fold.decisions));
  return {
    ...wait,
    since: last?.time ?? fold.decisions.created,
    behind: behindOf(fold, ends),
    silentProducers: silentProducers(engine, fold, now),
  };
}

function behindOf({ facts }: FeedFold, ends: readonly number[]): number {
  return facts.positions.reduce((sum, at, partition) => sum + Math.max(0, (ends[partition] ?? 0) - at), 0);
}

export function statusOf(engine: FeedEngine, fold: FeedFold, ends: readonly number[], now: number): FeedStatus {
  const { decisions, facts } = fold;
  const { view, trouble } = engine;
  const policyVersion = policyVersionOf(fold);
  return {
    feed: decisions.feed,
    project: decisions.project,
    timeline: decisions.timeline,
    committed: decisions.committed,
    cut: lastCut(decisions),
    ended: view.ended,
    deleted: decisions.deleted,
    trouble,
    lease: decisions.lease,
    next: pendingOf(engine, fold, ends, now),
    depth: depthOf(engine, fold),
    groups: groupCounts(engine, fold),
    oldestWaiting: oldestOf(engine, fold, now),
    staleness: stalenessHistogram(engine, fold),
    frontier: { positions: [...facts.positions], behind: behindOf(fold, ends), caughtUp: view.caughtUp, paused: view.paused },
    policyVersion,
    publishLag: policyVersion === null ? null : Math.max(0, decisions.committed - policyVersion),
    checkpoints: decisions.checkpoints,
    rewinds: decisions.rewinds,
    skippedRollouts: { ...facts.skipped },
    left: Object.fromEntries(decisions.totals.dropped),
    leftByLength: [...decisions.totals.byLength],
    failedGroups: Object.fromEntries(decisions.totals.failedGroups),
    silentProducers: silentProducers(engine, fold, now),
  };
}

function depthOf(engine: FeedEngine, { decisions }: FeedFold): FeedStatus['depth'] {
  const pool = poolOf(decisions);
  const yields = pool.flatMap(({ ready }) => engine.yields.get(ready?.offset ?? -1) ?? []);
  const sum = (of: (y: (typeof yields)[number]) => number): number => yields.reduce((total, each) => total + of(each), 0);
  return { groups: pool.length, rollouts: sum((y) => y.rollouts), rows: sum((y) => y.rows), tokens: sum((y) => y.tokens) };
}

function groupCounts(engine: FeedEngine, fold: FeedFold): FeedStatus['groups'] {
  const counts = { open: 0, sealed: 0, scoring: 0, ready: 0, cut: 0 };
  const policyOf = (env: string): ReturnType<typeof groupPolicyOf> => groupPolicyOf(engine.origin.resolved, env);
  for (const group of fold.facts.groups.values()) {
    const state = stateOfGroup({ fold, policyOf }, group);
    if (state === 'open' || state === 'sealed' || state === 'scoring') counts[state]++;
  }
  for (const { state } of fold.decisions.groups.values()) if (state === 'ready' || state === 'cut') counts[state]++;
  return counts;
}

function oldestOf(engine: FeedEngine, fold: FeedFold, now: number): Oldest | null {
  let oldest: Oldest | null = null;
  let first = Infinity;
  const policyOf = (env: string): ReturnType<typeof groupPolicyOf> => groupPolicyOf(engine.origin.resolved, env);
  for (const [key, { waitsFor, until }] of engine.notes.waiting) {
    const group = fold.facts.groups.get(key);
    if (group === undefined) continue;
    if (oldest !== null && group.since >= first) continue;
    first = group.since;
    const wall = (uptime: number): number => Math.round(now - (fold.now - uptime));
    oldest = {
      group: group.name.group,
      run: group.name.run,
      state: stateOfGroup({ fold, policyOf }, group),
      since: wall(group.since),
      waitsFor,
      deadline: wall(until),
    };
  }
  return oldest;
}

function stalenessHistogram(engine: FeedEngine, { decisions }: FeedFold): [number, number][] {
  const ages = new Map<number, number>();
  for (const { ready } of poolOf(decisions)) {
    const age = stalenessOf(lastCut(decisions) + 1, engine.yields.get(ready?.offset ?? -1)?.minVersion ?? null);
    if (age !== null) ages.set(age, (ages.get(age) ?? 0) + 1);
  }
  return [...ages].toSorted(([a], [b]) => a - b);
}

/** `now`: wall clock; what the feed's own clock says is told as wall time. */
function silentProducers(engine: FeedEngine, { facts, now: uptime }: FeedFold, now: number): SilentProducer[] {
  const found = new Map<string, { producer: string | null; run: string; rollouts: number; lastHeard: number }>();
  for (const rollout of facts.rollouts.values()) {
    if (rollout.start === null || rollout.limit !== null || endOf(rollout) !== null || !isSilent(rollout, engine.origin.resolved, uptime))
      continue;
    const { producer, run } = rollout;
    const entry = found.get(`${producer}/${run}`) ?? { producer, run, rollouts: 0, lastHeard: 0 };
    found.set(`${producer}/${run}`, {
      ...entry,
      rollouts: entry.rollouts + 1,
      lastHeard: Math.max(entry.lastHeard, now - (uptime - rollout.heard)),
    });
  }
  return [...found.values()];
}
