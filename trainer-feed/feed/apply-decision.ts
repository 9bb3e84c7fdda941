/**
 * The fold of a feed's own topic. Pure and total: every event either counts or is ignored with a reason, and everybody who reads the log comes to the same verdict. The first
 * decision in log order for its key wins. Time is read from events only (a lease taken after the last one expired), never from a clock.
 */
import type { EventOf, TapedeckEvent } from '../../events/registry.ts';
import type { BlobHandle } from '../../events/fields.ts';
import { nextState, type GroupSignal } from '../groups/group-states.ts';
import { groupKey, rolloutKey, type GroupName } from '../groups/keys.ts';
import {
  forgottenUpTo, isPooled, lastCut, linkOf, type BatchCounts, type BatchRecord, type DecisionState, type GroupRecord, type Plan, type ReadyRecord,
} from './decision-state.ts'; // prettier-ignore

/** What follows for the facts of rollouts. Members and rollouts are keys. */
export type Effect =
  | { readonly kind: 'sealed'; readonly group: string; readonly rollouts: ReadonlySet<string> }
  | { readonly kind: 'ready'; readonly group: string; readonly ready: ReadyRecord }
  | { readonly kind: 'gone'; readonly group: string; readonly rollouts: ReadonlySet<string> }
  | { readonly kind: 'dropped'; readonly rollout: string }
  | { readonly kind: 'cut'; readonly n: number }
  | { readonly kind: 'forgotten'; readonly n: number }
  /** Groups of batches above this number are wanted back and are forgotten: the state must be folded anew, forgetting nothing above. */
  | { readonly kind: 'rebuild'; readonly above: number };

export type Verdict = { readonly counts: true; readonly effects: readonly Effect[] } | { readonly counts: false; readonly why: Ignored };

/** Why a decision does not count. */
export type Ignored =
  | 'deleted' | 'timeline' | 'group_state' | 'not_next' | 'chain_mismatch' | 'cut_ahead' | 'pool' | 'not_cut' | 'lease_held' | 'stale_token' | 'repeated' | 'not_committed'; // prettier-ignore

export type FeedEvent = Extract<
  TapedeckEvent,
  { type: `feed.${string}` | `batch.${string}` | 'group.ready' | 'group.closed' | 'sample.dropped' }
>;

/** While offsets below `before` are folded nothing above batch `above` is forgotten: a rewind that lies there wants it back. */
export type Floor = { readonly before: number; readonly above: number };

export type Folding = { readonly state: DecisionState; readonly floors: readonly Floor[] };

const IGNORED = (why: Ignored): Verdict => ({ counts: false, why });
const counts = (...effects: Effect[]): Verdict => ({ counts: true, effects });

/** Folds one event of this feed at `offset` of its partition. Lists in the blob store must have been put back (resolve-lists.ts). `feed.created` is the first event and is not folded here. */
export function applyDecision(event: FeedEvent, offset: number, { state, floors }: Folding): Verdict {
  if (state.deleted) return IGNORED('deleted');
  const { timeline } = event.data;
  if (event.type === 'feed.rewound') return timeline === state.timeline + 1 ? applyRewound(event, state) : IGNORED('timeline');
  if (timeline !== state.timeline) return IGNORED('timeline');
  switch (event.type) {
    case 'feed.created':
      return IGNORED('repeated');
    case 'feed.deleted':
      state.deleted = true;
      return counts();
    case 'group.closed':
      return applyClosed(event, state);
    case 'group.ready':
      return applyReady(event, offset, state);
    case 'batch.cut':
      return applyCut(event, offset, state);
    case 'batch.leased':
      return applyLeased(event, offset, state);
    case 'batch.committed':
      return applyCommitted(event, state, floors.filter(({ before }) => offset < before)); // prettier-ignore
    case 'batch.released':
      return applyReleased(event, state);
    case 'feed.checkpointed':
      return applyCheckpointed(event, state);
    case 'sample.dropped':
      return applyDropped(event, state);
  }
}

function nameOf(event: EventOf<'group.closed'> | EventOf<'group.ready'>): GroupName {
  return { run: event.run ?? '', group: event.data.group, solo: event.data.solo ?? false };
}

/** The group's record if `signal` may happen to it; an open group has none yet and gets one. Null when it may not. */
function groupFor(state: DecisionState, name: GroupName, signal: GroupSignal): GroupRecord | null {
  const key = groupKey(name);
  if (state.gone.has(key)) return null;
  const known = state.groups.get(key);
  if (nextState(known?.state ?? 'open', signal) === null) return null;
  if (known !== undefined) return known;
  return { key, name, state: 'sealed', sealed: null, ready: null, cuts: [], order: 0 };
}

function applyClosed(event: EventOf<'group.closed'>, state: DecisionState): Verdict {
  const name = nameOf(event);
  const { outcome, reason } = event.data;
  const group = groupFor(state, name, outcome === 'sealed' ? 'seal' : 'fail');
  if (group === null) return IGNORED('group_state');
  const listed = listOf(event.data.rollouts);
  const rollouts = new Set(listed.map(({ rollout }) => rolloutKey(name.run, rollout)));
  if (outcome === 'sealed') {
    group.sealed = { reason, time: event.time, rollouts, limits: event.data.positions ?? [] };
    state.groups.set(group.key, group);
    return counts({ kind: 'sealed', group: group.key, rollouts });
  }
  const { totals } = state;
  totals.failedGroups.set(reason, (totals.failedGroups.get(reason) ?? 0) + 1);
  for (const { length } of listed) countDropped(state, reason, length ?? 0);
  return counts(forgetGroup(state, group, new Set([...rollouts, ...(group.sealed?.rollouts ?? []), ...(group.ready?.rollouts ?? [])])));
}

/** A list that was put back from the blob store if it lay there. */
export function listOf<T>(list: readonly T[] | BlobHandle): readonly T[] {
  if (!Array.isArray(list)) throw new Error('a list of a decision was not put back before it was folded');
  return list as readonly T[];
}

function countDropped(state: DecisionState, reason: string, length: number): void {
  const { dropped, byLength } = state.totals;
  const entry = dropped.get(reason) ?? { rollouts: 0, tokens: 0 };
  dropped.set(reason, { rollouts: entry.rollouts + 1, tokens: entry.tokens + length });
  addLength(byLength, lengthClass(length), 1);
}

/** Lengths below 2^i are of class i. */
export function lengthClass(length: number): number {
  return length <= 0 ? 0 : Math.floor(Math.log2(length)) + 1;
}

function addLength(byLength: number[], at: number, count: number): void {
  while (byLength.length <= at) byLength.push(0);
  byLength[at] = (byLength[at] as number) + count;
}

/** The feed is done with the group. `rollouts` = all that belong to it. */
function forgetGroup(state: DecisionState, group: GroupRecord, rollouts: ReadonlySet<string>): Effect {
  state.groups.delete(group.key);
  if (group.ready !== null) state.readyAt.delete(group.ready.offset);
  state.gone.add(group.key);
  for (const rollout of rollouts) state.closed.add(rollout);
  return { kind: 'gone', group: group.key, rollouts };
}

function applyReady(event: EventOf<'group.ready'>, offset: number, state: DecisionState): Verdict {
  const name = nameOf(event);
  const group = groupFor(state, name, 'ready');
  if (group === null) return IGNORED('group_state');
  const members = listOf(event.data.members).map(({ rollout, trace }) => ({ rollout: rolloutKey(name.run, rollout), trace }));
  group.ready = {
    offset,
    reason: event.data.reason ?? group.sealed?.reason ?? '',
    time: event.time,
    members,
    rollouts: new Set(members.map(({ rollout }) => rollout)),
    limits: event.data.rewardPositions ?? [],
    baselines: event.data.baselines ?? null,
  };
  group.state = 'ready';
  group.order = offset;
  state.groups.set(group.key, group);
  state.readyAt.set(offset, group.key);
  for (const [key, value] of Object.entries(event.data.baselinesAfter ?? {})) state.baselines.set(key, value);
  return counts({ kind: 'ready', group: group.key, ready: group.ready });
}

function applyCut(event: EventOf<'batch.cut'>, offset: number, state: DecisionState): Verdict {
  const { n, batchId, previous } = event.data;
  if (n !== lastCut(state) + 1) return IGNORED('not_next');
  if (n - state.committed > state.cutAhead) return IGNORED('cut_ahead');
  if ((previous ?? null) !== (linkOf(state, n - 1)?.batchId ?? null)) return IGNORED('chain_mismatch');
  const record = batchRecord(event, offset);
  const [again] = state.replay;
  const groups = record.groups.map((at) => state.groups.get(state.readyAt.get(at) ?? ''));
  if (again !== undefined) {
    if (again.n !== n || again.batchId !== batchId) return IGNORED('chain_mismatch');
    // the id covers the groups, and is not computed here: what is known of them must fit all the same
    if (new Set(record.groups).size < groups.length || groups.some((group) => group?.cuts.includes(n) === false))
      return IGNORED('chain_mismatch');
    state.replay.shift();
  } else {
    const taken = new Set(groups);
    if (taken.size < groups.length || groups.some((group) => group === undefined || !isPooled(state, group))) return IGNORED('pool');
    for (const group of groups as GroupRecord[]) {
      group.state = 'cut';
      group.cuts.push(n);
      group.order = offset;
    }
    countLeft(state, record.counts);
  }
  state.chain.push({ n, batchId, timeline: state.timeline, offset, forgotten: again?.forgotten ?? false });
  state.batches.set(n, record);
  return counts({ kind: 'cut', n });
}

function batchRecord(event: EventOf<'batch.cut'>, offset: number): BatchRecord {
  const {
    n,
    batchId,
    timeline,
    previous,
    groups,
    policyVersion,
    positions,
    algorithm,
    rows,
    excluded,
    counts: sums,
    statistics,
  } = event.data;
  return {
    n,
    batchId,
    timeline,
    offset,
    previous: previous ?? null,
    time: event.time,
    groups: listOf(groups ?? []),
    policyVersion: policyVersion ?? null,
    positions: positions ?? [],
    algorithm,
    rows: rows ?? null,
    excluded: excluded ?? null,
    counts: { ...NO_COUNTS, ...(sums as Partial<BatchCounts>) },
    statistics: statistics ?? {},
  };
}

const NO_COUNTS: BatchCounts = {
  rows: 0, rollouts: 0, groups: 0, tokens: 0, longestRow: 0, N_rl: 1, N_ce: 1, N_ref_kl: 1, left: {}, leftByLength: [],
}; // prettier-ignore

function countLeft(state: DecisionState, { left, leftByLength }: BatchCounts): void {
  const { dropped, byLength } = state.totals;
  for (const [reason, { rows, tokens }] of Object.entries(left)) {
    const entry = dropped.get(reason) ?? { rollouts: 0, tokens: 0 };
    dropped.set(reason, { rollouts: entry.rollouts + rows, tokens: entry.tokens + tokens });
  }
  for (const [at, count] of leftByLength.entries()) addLength(byLength, at, count);
}

function applyLeased(event: EventOf<'batch.leased'>, offset: number, state: DecisionState): Verdict {
  const { n, batchId, holder, planId, plan, step, expires, renews } = event.data;
  if (n !== state.committed + 1 || step !== n) return IGNORED('not_next');
  const link = linkOf(state, n);
  if (link === undefined) return IGNORED('not_cut');
  if (link.batchId !== batchId) return IGNORED('chain_mismatch');
  const { lease } = state;
  if (lease !== null && lease.event === event.id) return IGNORED('repeated');
  const isOwn = lease !== null && lease.holder === holder;
  if (renews !== null && renews !== undefined) {
    if (!isOwn || renews !== lease.token || lease.n !== n) return IGNORED('stale_token');
  } else if (lease !== null && !isOwn && event.time < lease.expires) {
    return IGNORED('lease_held');
  }
  const token = renews ?? offset;
  const since = renews === null || renews === undefined ? event.time : (lease?.since ?? event.time);
  state.lease = { token, holder, n, batchId, planId, plan: (plan as Plan | null | undefined) ?? null, since, expires, event: event.id };
  return counts();
}

function applyCommitted(event: EventOf<'batch.committed'>, state: DecisionState, floors: readonly Floor[]): Verdict {
  const { n, batchId, holder, token, resumed } = event.data;
  if (n !== state.committed + 1) return IGNORED('not_next');
  const link = linkOf(state, n);
  if (link === undefined) return IGNORED('not_cut');
  if (link.batchId !== batchId) return IGNORED('chain_mismatch');
  if (resumed === true) state.lease = null;
  else if (state.lease === null || state.lease.n !== n || state.lease.token !== token || state.lease.holder !== holder)
    return IGNORED('stale_token');
  state.committed = n;
  const sums = state.batches.get(n)?.counts;
  state.totals.trainedRows += sums?.rows ?? 0;
  state.totals.trainedTokens += sums?.tokens ?? 0;
  return counts(...forget(state, floors));
}

/** Lets go of batches far below the last commit, and of groups that only they hold. */
function forget(state: DecisionState, floors: readonly Floor[]): Effect[] {
  const effects: Effect[] = [];
  const upTo = Math.min(forgottenUpTo(state), ...floors.map(({ above }) => above));
  for (const [n, batch] of state.batches) {
    if (n > upTo) continue;
    state.batches.delete(n);
    const link = linkOf(state, n);
    if (link !== undefined) link.forgotten = true;
    effects.push({ kind: 'forgotten', n });
    for (const at of batch.groups) {
      const group = state.groups.get(state.readyAt.get(at) ?? '');
      if (group === undefined || isPooled(state, group) || group.cuts.some((cut) => cut > upTo)) continue;
      effects.push(forgetGroup(state, group, group.ready?.rollouts ?? new Set()));
    }
  }
  return effects;
}

function applyReleased(event: EventOf<'batch.released'>, state: DecisionState): Verdict {
  if (state.lease === null || state.lease.token !== event.data.token) return IGNORED('stale_token');
  state.lease = null;
  return counts();
}

/** Checkpoints kept to say what can be resumed. */
const KEPT_CHECKPOINTS = 100;

function applyCheckpointed(event: EventOf<'feed.checkpointed'>, state: DecisionState): Verdict {
  const { n, batchId, timeline, uri } = event.data;
  if (n > state.committed) return IGNORED('not_committed');
  if (linkOf(state, n)?.batchId !== batchId) return IGNORED('chain_mismatch');
  if (state.checkpoints.some((known) => known.n === n && known.uri === (uri ?? null))) return IGNORED('repeated');
  state.checkpoints = [...state.checkpoints, { n, batchId, timeline, uri: uri ?? null, time: event.time }].slice(-KEPT_CHECKPOINTS);
  return counts();
}

function applyRewound(event: EventOf<'feed.rewound'>, state: DecisionState): Verdict {
  const { from, to, mode, positions } = event.data;
  if (from !== state.committed || to > from) return IGNORED('not_next');
  const abandoned = [...state.chain.slice(to), ...state.replay];
  const effects: Effect[] = [];
  if (mode === 'recut') {
    // what was let go cannot be given back from here: whoever folds must begin anew
    if (abandoned.some(({ forgotten }) => forgotten)) effects.push({ kind: 'rebuild', above: to });
    for (const group of state.groups.values()) giveBack(state, group, to);
    state.foreign.push({ above: to, positions: positions ?? [] });
  }
  state.replay = mode === 'replay' ? abandoned : [];
  for (const { n } of abandoned) state.batches.delete(n);
  state.chain.length = to;
  state.committed = to;
  state.timeline = event.data.timeline;
  state.rewinds.push({ timeline: state.timeline, to });
  state.lease = null;
  state.checkpoints = state.checkpoints.filter(({ n }) => n <= to);
  return counts(...effects);
}

/** A group of abandoned batches goes back to where it was before them. */
function giveBack(state: DecisionState, group: GroupRecord, to: number): void {
  const kept = group.cuts.filter((n) => n <= to);
  if (kept.length === group.cuts.length || group.ready === null) return;
  group.cuts.splice(0, group.cuts.length, ...kept);
  const last = kept.at(-1);
  if (last !== undefined) {
    group.order = linkOf(state, last)?.offset ?? group.ready.offset;
    return;
  }
  group.state = nextState(group.state, 'return') === 'ready' ? 'ready' : group.state;
  group.order = group.ready.offset;
}

function applyDropped(event: EventOf<'sample.dropped'>, state: DecisionState): Verdict {
  const { rollout, reason, length } = event.data;
  const key = rolloutKey(event.run ?? event.data.run ?? '', rollout);
  if (!state.closed.add(key)) return IGNORED('repeated');
  countDropped(state, reason, length ?? 0);
  return counts({ kind: 'dropped', rollout: key });
}
