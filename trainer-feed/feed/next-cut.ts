/**
 * Whether the next batch can be cut, of which groups, or what it waits for. Whole groups, oldest ready first (under `wait` oldest weights first), until the size is reached.
 * Reads columns of groups whose yield is not known yet; decides nothing by a clock.
 */
import { setImmediate } from 'node:timers/promises';
import { mustWait, oldestFresh } from '../cut/staleness.ts';
import { prepareGroup, type PreparedGroup } from '../cut/prepare-group.ts';
import type { LoadColumns } from '../groups/member-trace.ts';
import { endOf, type RolloutFacts } from '../groups/rollout-facts.ts';
import { lastCut, poolOf, type ChainLink, type GroupRecord } from './decision-state.ts';
import type { Draft } from './draft.ts';
import type { FeedFold } from './fold.ts';
import { gatherGroup, isGathered } from './gather-group.ts';
import { failDraft } from './group-decisions.ts';
import { groupYield, type GroupYield } from './group-yield.ts';
import type { ResolvedFeedSpec } from './spec.ts';

/** By offset of the ready decision; derived, not part of the state. */
export type Yields = Map<number, GroupYield>;

export type CutWait = {
  readonly n: number;
  /** A sentence: what the batch waits for. */
  readonly waitsFor: string;
  readonly kind: 'commit' | 'groups' | 'catching_up' | 'stragglers' | 'other_feed' | 'end';
  /** How much of the size is there; null where that is not the question. */
  readonly have: number | null;
  readonly need: number | null;
  readonly unit: 'rollouts' | 'groups' | 'tokens';
};

export type NextCut =
  | { readonly kind: 'wait'; readonly wait: CutWait }
  | { readonly kind: 'again'; readonly link: ChainLink }
  | { readonly kind: 'cut'; readonly n: number; readonly groups: readonly GroupRecord[] }
  | { readonly kind: 'drop'; readonly drafts: readonly Draft[] }
  | { readonly kind: 'end'; readonly n: number };

export type CutterContext = {
  readonly fold: FeedFold;
  readonly resolved: ResolvedFeedSpec;
  readonly load: LoadColumns;
  readonly yields: Yields;
  /** Everything in the log was read. */
  readonly caughtUp: boolean;
  /** For `membership: as:<feed>`: the groups of that feed's batch, by key; `keys` null = it is not cut yet. */
  readonly given: { readonly keys: readonly string[] | null } | null;
};

/** Groups that bring nothing are kept for the manifest of the next batch; more than this are given up at once. */
const IDLE_GROUPS = 4096;
/** Columns of so many groups are read before others may run. */
const GROUPS_AT_A_TIME = 8;

export async function nextCut(context: CutterContext): Promise<NextCut> {
  const { fold, resolved } = context;
  const { decisions } = fold;
  const n = lastCut(decisions) + 1;
  if (n - decisions.committed > decisions.cutAhead) return wait(context, n, 'commit', `the commit of batch ${decisions.committed + 1}`);
  const [again] = decisions.replay;
  if (again !== undefined) return { kind: 'again', link: again };
  if (context.given !== null) return givenCut(context, n, context.given.keys);
  const straggler = resolved.spec.staleness.strategy === 'wait' ? mustWaitFor(context, n) : null;
  if (straggler !== null)
    return wait(context, n, 'stragglers', `rollout ${straggler.rollout} to end: it would be too old for the batch after`);
  return fillCut(context, n);
}

function wait(
  { resolved }: CutterContext,
  n: number,
  kind: CutWait['kind'],
  waitsFor: string,
  have: number | null = null,
  need: number | null = null,
): NextCut {
  return { kind: 'wait', wait: { n, kind, waitsFor, have, need, unit: resolved.spec.batch.by } };
}

/** Notes what every group in the pool would bring: producers are told by it whether more is needed. */
export async function noteYields(context: CutterContext): Promise<void> {
  const n = lastCut(context.fold.decisions) + 1;
  let read = 0;
  for (const group of poolOf(context.fold.decisions)) {
    if (group.ready === null || context.yields.has(group.ready.offset) || !isGathered(context.fold, group.ready)) continue;
    if (read++ % GROUPS_AT_A_TIME === 0) await setImmediate();
    yieldOf(context, group, n);
  }
}

async function fillCut(context: CutterContext, n: number): Promise<NextCut> {
  const { fold, resolved } = context;
  const { size, by } = resolved.spec.batch;
  const { stepsPerCut } = resolved.spec;
  const need = (n - 1) % stepsPerCut === 0 ? size * stepsPerCut : size;
  const pool = poolOf(fold.decisions);
  if (pool.some(({ ready }) => ready !== null && !isGathered(fold, ready))) return wait(context, n, 'catching_up', 'the log to be read');
  const ordered = await inCutOrder(context, pool, n);
  const chosen: GroupRecord[] = [];
  let total = 0;
  for (const [i, group] of ordered.entries()) {
    if (i % GROUPS_AT_A_TIME === 0) await setImmediate();
    if (total < size) chosen.push(group);
    total += unitsOf(yieldOf(context, group, n), by);
    if (total >= need) return { kind: 'cut', n, groups: chosen };
  }
  const over = isOver(context);
  if (over && total > 0 && resolved.spec.flush) return { kind: 'cut', n, groups: chosen };
  if (over && pool.length > 0)
    return {
      kind: 'drop',
      drafts: pool.map((group) => failDraft(context, group, [], idleReason(yieldOf(context, group, n)) ?? 'end_of_run')),
    };
  if (over) return { kind: 'end', n };
  const idle = ordered.filter((group) => context.yields.get(group.ready?.offset ?? -1)?.rows === 0);
  if (idle.length > IDLE_GROUPS) {
    return {
      kind: 'drop',
      drafts: idle
        .slice(0, IDLE_GROUPS / 2)
        .map((group) => failDraft(context, group, [], idleReason(yieldOf(context, group, n)) ?? 'nothing_to_train')),
    };
  }
  const missing = Math.max(0, need - total);
  return wait(context, n, 'groups', `${missing} more ${by}${groupsUnderWay(fold)}`, total, need);
}

/** Why a group brings no row; null when it brings some. */
function idleReason({ rows, reason }: GroupYield): string | null {
  return rows > 0 ? null : (reason ?? 'nothing_to_train');
}

function groupsUnderWay({ decisions, facts }: FeedFold): string {
  let open = 0;
  let sealed = 0;
  for (const key of facts.groups.keys()) {
    const record = decisions.groups.get(key);
    if (record === undefined) open++;
    else if (record.ready === null) sealed++;
  }
  return `: ${open} groups are open, ${sealed} wait for scores`;
}

async function inCutOrder(context: CutterContext, pool: readonly GroupRecord[], n: number): Promise<readonly GroupRecord[]> {
  if (context.resolved.spec.staleness.strategy !== 'wait') return pool;
  for (const [i, group] of pool.entries()) {
    if (i % GROUPS_AT_A_TIME === 0) await setImmediate();
    yieldOf(context, group, n);
  }
  const versionOf = (group: GroupRecord): number => context.yields.get(group.ready?.offset ?? -1)?.minVersion ?? Infinity;
  return pool.toSorted((a, b) => versionOf(a) - versionOf(b) || a.order - b.order);
}

export function unitsOf({ rollouts, rows, tokens }: GroupYield, by: 'rollouts' | 'groups' | 'tokens'): number {
  return by === 'rollouts' ? rollouts : by === 'tokens' ? tokens : rows > 0 ? 1 : 0;
}

/** The group's yield in batch n: as noted, unless its age has changed it since. */
export function yieldOf(context: Pick<CutterContext, 'fold' | 'resolved' | 'load' | 'yields'>, group: GroupRecord, n: number): GroupYield {
  const offset = group.ready?.offset ?? -1;
  const known = context.yields.get(offset);
  if (known !== undefined && (known.n === n || !agesWith(context.resolved, known, n))) return known;
  const fresh = groupYield(context.resolved.cut, prepared(context, group), n);
  context.yields.set(offset, fresh);
  return fresh;
}

function agesWith({ spec }: ResolvedFeedSpec, { minVersion, n: at }: GroupYield, n: number): boolean {
  const { maxOffPolicySteps, strategy } = spec.staleness;
  if (maxOffPolicySteps === null || strategy === 'wait' || minVersion === null) return false;
  // older or younger than the limit at either time: younger again after a rewind
  return minVersion < oldestFresh(Math.max(at, n), maxOffPolicySteps);
}

/** Steps 1 to 5 of a cut for one group. */
export function prepared({ fold, resolved, load }: Pick<CutterContext, 'fold' | 'resolved' | 'load'>, group: GroupRecord): PreparedGroup {
  return prepareGroup(resolved.cut, gatherGroup(fold, group, load), new Map());
}

/** Strategy wait: a rollout that still runs and would be too old for batch n + 1. */
function mustWaitFor({ fold, resolved }: CutterContext, n: number): RolloutFacts | null {
  const limit = resolved.spec.staleness.maxOffPolicySteps;
  if (limit === null) return null;
  for (const group of fold.facts.groups.values()) {
    if (fold.decisions.groups.get(group.key)?.ready) continue;
    for (const key of group.rollouts) {
      const rollout = fold.facts.rollouts.get(key);
      if (rollout === undefined || endOf(rollout)?.kind === 'cancelled' || isSilent(rollout, resolved, fold.now)) continue;
      const version = firstVersion(rollout);
      if (version !== null && mustWait(n, version, limit)) return rollout;
    }
  }
  return null;
}

/** Whether a rollout that has not ended is taken for dead. `now` by the feed's own clock. */
export function isSilent(rollout: RolloutFacts, { spec }: ResolvedFeedSpec, now: number): boolean {
  return endOf(rollout) === null && rollout.heard + spec.rolloutExpirySeconds * 1_000_000 < now;
}

/** The weights a rollout began with, as far as they are known. */
export function firstVersion(rollout: RolloutFacts): number | null {
  let first: number | null = null;
  for (const trace of rollout.traces.values()) {
    for (const { policyVersion } of trace.calls.values())
      if (policyVersion !== null) first = Math.min(first ?? policyVersion, policyVersion);
    for (const { policyVersion } of trace.nodes.values())
      if (policyVersion !== null) first = Math.min(first ?? policyVersion, policyVersion);
  }
  return first ?? rollout.start?.policyVersion ?? null;
}

/** The runs have ended and nothing is under way: what is there is all there will be. */
function isOver({ fold, resolved, caughtUp }: CutterContext): boolean {
  const { runs } = resolved.spec;
  if (!caughtUp || runs === null || !runs.every((run) => fold.facts.endedRuns.has(run) || fold.facts.deletedRuns.has(run))) return false;
  for (const { key, rollouts } of fold.facts.groups.values()) {
    if (rollouts.size > 0 && !fold.decisions.groups.get(key)?.ready) return false;
  }
  return true;
}

/** `membership: as:<feed>`: exactly the groups of the other feed's batch, as far as they can be had here. */
function givenCut(context: CutterContext, n: number, keys: readonly string[] | null): NextCut {
  const { fold } = context;
  if (keys === null) return wait(context, n, 'other_feed', `batch ${n} of the other feed to be cut`);
  const groups = keys.flatMap((key) => fold.decisions.groups.get(key) ?? []).filter(({ ready }) => ready !== null);
  const known = new Set(groups.map(({ key }) => key));
  const missing = keys.filter((key) => !known.has(key) && !fold.decisions.gone.has(key));
  if (missing.length > 0) return wait(context, n, 'catching_up', `${missing.length} groups of the other feed's batch to be read`);
  if (groups.length === 0)
    return wait(
      context,
      n,
      'other_feed',
      `nothing: no group of batch ${n} of the other feed can be trained here, so this feed ends at batch ${n - 1}`,
    );
  return { kind: 'cut', n, groups: groups.toSorted((a, b) => a.order - b.order) };
}
