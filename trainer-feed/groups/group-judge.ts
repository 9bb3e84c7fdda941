/**
 * What should become of a group, given what is known of it: wait, seal, make ready or give up. Pure. Whoever carries the verdict out appends it to the log of the
 * feed; a deadline that passed is thereby a decision, and a replay never looks at a clock.
 */
import type { GroupFacts } from './group-facts.ts';
import { groupKey, rolloutKey } from './keys.ts';
import { endOf, type RolloutFacts } from './rollout-facts.ts';
import { missingScores } from './scores.ts';

export type GroupPolicy = {
  /** Size of groups that declare none; null = such a group is sealed by `group.sealed` or by the deadline. */
  readonly size: number | null;
  /** Fewer usable rollouts than this: the group fails. */
  readonly minGroupSize: number;
  /** More than size: `first` = those that ended first, `all` = all. */
  readonly redundant: 'first' | 'all';
  /** Microseconds after the feed first saw the group. */
  readonly deadline: number;
  /** Microseconds after the members were fixed; and as long again for reducers and teachers. */
  readonly scoringDeadline: number;
  readonly unscored: 'exclude' | 'fail';
  readonly requiredRewards: readonly string[];
  /** False for algorithms that need none. */
  readonly needsRewards: boolean;
};

/** What the judge looks at besides the policy. Times in microseconds of the feed's own clock, which stands still while the feed does not run. */
export type Circumstances = {
  readonly now: number;
  /** When the feed first saw the group, or when its members were fixed. */
  readonly since: number;
  /** Everything in the log was read: only then a deadline may pass, and only then nobody else can be on the way. */
  readonly caughtUp: boolean;
  readonly runEnded: boolean;
  readonly runDeleted: boolean;
  /** Whether the members are fixed. */
  readonly isSealed: boolean;
  readonly sealReason: string | null;
  /** What reducers and teachers still owe a group of these members. */
  readonly owed: (members: readonly RolloutFacts[]) => Owed;
  /** By name, why what is owed will never come; null = it may. */
  readonly failure: string | null;
};

/** For people: rewards that come from comparing members, and scores of teachers. */
export type Owed = { readonly rewards: readonly string[]; readonly references: readonly string[] };
export const NOTHING_OWED: Owed = { rewards: [], references: [] };

export type MemberName = { readonly rollout: RolloutFacts; readonly trace: string };

export type Verdict =
  /** `scored`: the members whose own rewards are there, for whom reducers and teachers are now at work; null = it does not wait for those. */
  | {
      readonly kind: 'wait';
      readonly waitsFor: readonly string[];
      readonly until: number;
      readonly scored: readonly RolloutFacts[] | null;
    }
  | { readonly kind: 'seal'; readonly reason: string; readonly rollouts: readonly RolloutFacts[] }
  | { readonly kind: 'ready'; readonly reason: string; readonly members: readonly MemberName[] }
  | { readonly kind: 'fail'; readonly reason: string; readonly rollouts: readonly RolloutFacts[] };

/** Judges a group that is open or whose members are fixed. `rolloutOf` finds the facts of a rollout by its key. */
export function judgeGroup(
  group: GroupFacts,
  policy: GroupPolicy,
  at: Circumstances,
  rolloutOf: (key: string) => RolloutFacts | undefined,
): Verdict {
  const rollouts = [...group.rollouts].flatMap((key) => rolloutOf(key) ?? []).toSorted(byStart);
  if (at.runDeleted) return { kind: 'fail', reason: 'run_deleted', rollouts };
  return !at.isSealed ? judgeOpen(group, withoutMirrors(rollouts), rollouts, policy, at) : judgeSealed(rollouts, policy, at);
}

/** Oldest first; the same in every replay. */
function byStart(a: RolloutFacts, b: RolloutFacts): number {
  return (a.start?.time ?? 0) - (b.start?.time ?? 0) || compareText(a.key, b.key);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A rollout that mirrors another of the group only proves it. */
function withoutMirrors(rollouts: readonly RolloutFacts[]): RolloutFacts[] {
  const keys = new Set(rollouts.map(({ key }) => key));
  return rollouts.filter(({ run, start }) => start === null || start.mirrorOf === null || !keys.has(rolloutKey(run, start.mirrorOf)));
}

type Sorted = { readonly usable: RolloutFacts[]; readonly failed: RolloutFacts[]; readonly cancelled: number; readonly running: number };

function sortOut(rollouts: readonly RolloutFacts[]): Sorted {
  const usable: RolloutFacts[] = [];
  const failed: RolloutFacts[] = [];
  let cancelled = 0;
  let running = 0;
  for (const rollout of rollouts) {
    const end = endOf(rollout);
    if (end === null) running++;
    else if (end.kind === 'cancelled') cancelled += end.reason === 'superseded' ? 0 : 1;
    else if (end.ok === false) failed.push(rollout);
    else usable.push(rollout);
  }
  return { usable, failed, cancelled, running };
}

function judgeOpen(
  group: GroupFacts,
  counting: readonly RolloutFacts[],
  rollouts: readonly RolloutFacts[],
  policy: GroupPolicy,
  at: Circumstances,
): Verdict {
  if (group.seal?.reason === 'cancelled') return { kind: 'fail', reason: 'cancelled', rollouts };
  const { usable, failed, cancelled, running } = sortOut(counting);
  const size = group.seal?.size ?? declaredSize(counting) ?? policy.size;
  const retries = counting.filter(({ start }) => (start?.attempt ?? 0) > 0).length;
  const finished = usable.length + failed.length + cancelled - retries;
  const until = at.since + policy.deadline;
  const late = at.caughtUp && at.now >= until;
  const complete = size !== null && finished >= size;
  const over = at.caughtUp && at.runEnded && running === 0;
  if (!complete && !late && !over) return { kind: 'wait', until, waitsFor: [missingRollouts(finished, size, running)], scored: null };
  // sealed, and none of its rollouts may enter: it waits for nobody for ever
  if (counting.length === 0) return { kind: 'fail', reason: 'no_rollouts', rollouts };
  const reason = complete ? (group.seal?.reason ?? 'complete') : over ? 'run_ended' : 'deadline';
  if (usable.length < Math.max(1, policy.minGroupSize)) return { kind: 'fail', reason: complete ? 'too_small' : reason, rollouts };
  const members = [...chosen(usable, size, policy), ...failed].toSorted(byStart);
  const lacking = lackingScores(members, policy);
  return lacking.size === 0 && isNothing(at.owed(members))
    ? { kind: 'ready', reason, members: tracesOf(members) }
    : { kind: 'seal', reason, rollouts: members };
}

/** The largest size that a rollout declared. */
function declaredSize(rollouts: readonly RolloutFacts[]): number | null {
  return rollouts.reduce<number | null>((size, { start }) => (start?.size == null ? size : Math.max(size ?? 0, start.size)), null);
}

function missingRollouts(finished: number, size: number | null, running: number): string {
  if (size === null) return `group.sealed or the deadline: its size is not known (${finished} finished, ${running} running)`;
  return `${size - finished} of ${size} rollouts to end (${running} running)`;
}

/** Redundant samples: those that ended first, by the clock of their producer. */
function chosen(usable: readonly RolloutFacts[], size: number | null, policy: GroupPolicy): readonly RolloutFacts[] {
  if (policy.redundant === 'all' || size === null || usable.length <= size) return usable;
  const ended = (rollout: RolloutFacts): number => endOf(rollout)?.time ?? 0;
  return usable.toSorted((a, b) => ended(a) - ended(b) || compareText(a.key, b.key)).slice(0, size);
}

/** First the members' own rewards, then what reducers and teachers owe those that are scored: each has `scoringDeadline`. */
function judgeSealed(members: readonly RolloutFacts[], policy: GroupPolicy, at: Circumstances): Verdict {
  const lacking = lackingScores(members, policy);
  const until = at.since + policy.scoringDeadline;
  if (lacking.size > 0) {
    const waitsFor = [...new Set([...lacking.values()].flat())].map((name) => `reward ${name}`);
    if (!at.caughtUp || at.now < until) return { kind: 'wait', until, waitsFor, scored: null };
    if (policy.unscored === 'fail') return { kind: 'fail', reason: 'unscored', rollouts: members };
  }
  const scored = members.filter((rollout) => !lacking.has(rollout));
  if (lacking.size > 0 && sortOut(scored).usable.length < Math.max(1, policy.minGroupSize)) {
    return { kind: 'fail', reason: 'unscored', rollouts: members };
  }
  return judgeScored(members, scored, policy, at);
}

function judgeScored(members: readonly RolloutFacts[], scored: readonly RolloutFacts[], policy: GroupPolicy, at: Circumstances): Verdict {
  const owed = at.owed(scored);
  const ready: Verdict = { kind: 'ready', reason: at.sealReason ?? 'complete', members: tracesOf(scored) };
  if (isNothing(owed)) return ready;
  const until = at.since + 2 * policy.scoringDeadline;
  if (!at.caughtUp || (at.failure === null && at.now < until)) {
    return { kind: 'wait', until, waitsFor: [...owed.rewards, ...owed.references], scored };
  }
  const reason = at.failure ?? (owed.rewards.length > 0 ? 'group_reward_late' : 'reference_late');
  // a comparison that is missing is missing for all; a row without teacher scores is left out of the batch, and its trace stays in the baseline
  return policy.unscored === 'fail' || owed.rewards.length > 0 ? { kind: 'fail', reason, rollouts: members } : ready;
}

function isNothing({ rewards, references }: Owed): boolean {
  return rewards.length === 0 && references.length === 0;
}

/** True when nothing but reducers and teachers is missing. */
export function ownScoresThere(members: readonly RolloutFacts[], policy: GroupPolicy): boolean {
  return lackingScores(members, policy).size === 0;
}

/** Rewards that members still lack. A failed rollout and an agent that is not trained need none. */
function lackingScores(members: readonly RolloutFacts[], policy: GroupPolicy): Map<RolloutFacts, string[]> {
  const lacking = new Map<RolloutFacts, string[]>();
  if (!policy.needsRewards) return lacking;
  for (const rollout of members) {
    if (endOf(rollout)?.ok === false) continue;
    for (const trace of rollout.traces.values()) {
      if (trace.starts.findLast(({ trainable }) => trainable !== null)?.trainable === false) continue;
      if (![...trace.nodes.values()].some(({ sampled }) => sampled)) continue;
      const missing = missingScores(rollout, trace.trace, policy.requiredRewards);
      if (missing.length > 0) lacking.set(rollout, [...(lacking.get(rollout) ?? []), ...missing]);
    }
  }
  return lacking;
}

/** All traces of the rollouts, in the order in which they began; one that mirrors another is left out. */
export function tracesOf(rollouts: readonly RolloutFacts[]): MemberName[] {
  const all = new Set(rollouts.flatMap(({ traces }) => [...traces.keys()]));
  return rollouts.flatMap((rollout) =>
    [...rollout.traces.values()]
      .toSorted((a, b) => a.offset - b.offset)
      .filter(({ starts }) => starts[0]?.mirrorOf === null || starts[0]?.mirrorOf === undefined || !all.has(starts[0].mirrorOf))
      .map(({ trace }) => ({ rollout, trace })),
  );
}

/** The group's key from a rollout that started in it. */
export function groupOfRollout(rollout: RolloutFacts): string | null {
  return rollout.start === null ? null : groupKey({ run: rollout.run, ...rollout.start });
}
