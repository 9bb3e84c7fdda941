/**
 * What a feed should decide about its groups now: seal, make ready, give up, record who came too late. Pure but for its notes: verdicts that wait are noted with what they wait
 * for, so that nothing is judged again before something happens to it or its deadline passes.
 */
import {
  groupOfRollout,
  judgeGroup,
  ownScoresThere,
  type Circumstances,
  type GroupPolicy,
  type Owed,
  type Verdict,
} from '../groups/group-judge.ts';
import type { GroupFacts } from '../groups/group-facts.ts';
import { endOf, lengthOf, type RolloutFacts } from '../groups/rollout-facts.ts';
import type { GroupState } from '../groups/group-states.ts';
import type { GroupRecord } from './decision-state.ts';
import type { Draft } from './draft.ts';
import type { FeedFold } from './fold.ts';

export type Waiting = { readonly waitsFor: readonly string[]; readonly until: number };

/** Notes of the judge, derived and not part of the state. */
export type GroupNotes = {
  /** What open and sealed groups wait for. */
  readonly waiting: Map<string, Waiting>;
  /** Groups whose members' own rewards are there, with those members: reducers and teachers are at work, until the deadline. */
  readonly scoring: Map<string, { readonly members: readonly RolloutFacts[]; readonly until: number }>;
  /** Judged while the log was not read to its end. */
  readonly again: Set<string>;
};

export function newGroupNotes(): GroupNotes {
  return { waiting: new Map(), scoring: new Map(), again: new Set() };
}

export type JudgeContext = {
  readonly fold: FeedFold;
  readonly notes: GroupNotes;
  readonly policyOf: (env: string) => GroupPolicy;
  /** What reducers and teachers still owe a group with these members. */
  readonly owed: (group: GroupFacts, members: readonly RolloutFacts[]) => Owed;
  /** Why that will never come, by name; null = it may. */
  readonly failure: (group: GroupFacts) => string | null;
  /** Microseconds of the feed's own clock. */
  readonly now: number;
  /** A rollout that has not ended and was silent for so long is taken for dead, microseconds. */
  readonly expiry: number;
  readonly caughtUp: boolean;
};

/** At most this many at a time, so that one append stays small. */
const MOST = 1000;

/** Proposals in the order of judging; empty when nothing is to be decided. A ready decision is completed by its caller with running baselines. */
export function groupDecisions(context: JudgeContext): Draft[] {
  const { fold, notes, now, caughtUp } = context;
  const due = new Set(fold.touched);
  if (caughtUp) {
    for (const key of notes.again) due.add(key);
    notes.again.clear();
    for (const [key, { until }] of notes.waiting) if (until <= now) due.add(key);
  }
  const drafts: Draft[] = [];
  for (const key of due) {
    if (drafts.length >= MOST) break;
    fold.touched.delete(key);
    const group = fold.facts.groups.get(key);
    const record = fold.decisions.groups.get(key);
    if (group === undefined || record?.ready) {
      notes.waiting.delete(key);
      notes.scoring.delete(key);
      if (record?.ready && fold.facts.deletedRuns.has(record.name.run) && record.cuts.length === 0)
        drafts.push(failDraft(context, record, [], 'run_deleted'));
      continue;
    }
    const verdict = judge(context, group, record);
    if (verdict.kind === 'wait') {
      notes.waiting.set(key, verdict);
      if (verdict.scored === null) notes.scoring.delete(key);
      else notes.scoring.set(key, { members: verdict.scored, until: verdict.until });
      if (!caughtUp) notes.again.add(key);
    } else {
      notes.waiting.delete(key);
      notes.scoring.delete(key);
      drafts.push(draftOf(context, group, verdict));
    }
  }
  return [...drafts, ...(caughtUp ? stragglerDrafts(context, MOST - drafts.length) : [])];
}

/** The next time at which a deadline passes, microseconds of the feed's own clock; Infinity when none waits. */
export function nextDeadline(notes: GroupNotes): number {
  let next = Infinity;
  for (const { until } of notes.waiting.values()) next = Math.min(next, until);
  return next;
}

function judge(
  { fold, policyOf, owed, failure, now, caughtUp }: JudgeContext,
  group: GroupFacts,
  record: GroupRecord | undefined,
): Verdict {
  const { facts } = fold;
  const { run } = group.name;
  const at: Circumstances = {
    now,
    caughtUp,
    runEnded: facts.endedRuns.has(run),
    runDeleted: facts.deletedRuns.has(run),
    since: group.since,
    isSealed: record?.sealed !== null && record?.sealed !== undefined,
    sealReason: record?.sealed?.reason ?? null,
    owed: (members) => owed(group, members),
    failure: failure(group),
  };
  return judgeGroup(group, policyOf(envOf(fold, group)), at, (key) => facts.rollouts.get(key));
}

/** The env of the group's rollouts; they are of one task, hence of one env. */
export function envOf(fold: FeedFold, group: GroupFacts): string {
  for (const key of group.rollouts) {
    const start = fold.facts.rollouts.get(key)?.start;
    if (start !== null && start !== undefined) return start.env;
  }
  return '';
}

/** Where the group stands, for people. */
export function stateOfGroup({ fold, policyOf }: Pick<JudgeContext, 'fold' | 'policyOf'>, group: GroupFacts): GroupState {
  const record = fold.decisions.groups.get(group.key);
  if (record === undefined) return 'open';
  if (record.state !== 'sealed') return record.state;
  const members = [...group.rollouts].flatMap((key) => fold.facts.rollouts.get(key) ?? []);
  return ownScoresThere(members, policyOf(envOf(fold, group))) ? 'scoring' : 'sealed';
}

function draftOf({ fold }: JudgeContext, group: GroupFacts, verdict: Exclude<Verdict, { kind: 'wait' }>): Draft {
  const { feed, timeline } = fold.decisions;
  const { run, solo } = group.name;
  const positions = [...fold.facts.positions];
  const common = { feed, timeline, group: group.name.group, ...(solo ? { solo } : {}), reason: verdict.reason };
  switch (verdict.kind) {
    case 'ready':
      return {
        type: 'group.ready',
        run,
        key: [group.key],
        data: {
          ...common,
          members: verdict.members.map(({ rollout, trace }) => ({ rollout: rollout.rollout, trace })),
          rewardPositions: positions,
        },
      };
    case 'seal':
    case 'fail': {
      const outcome = verdict.kind === 'seal' ? 'sealed' : 'failed';
      return {
        type: 'group.closed',
        run,
        key: [group.key, outcome],
        data: {
          ...common,
          outcome,
          rollouts: verdict.rollouts.map((rollout) => ({ rollout: rollout.rollout, length: lengthOf(rollout) })),
          positions,
        },
      };
    }
  }
}

/** Gives a ready group up. */
export function failDraft(
  { fold }: Pick<JudgeContext, 'fold'>,
  record: GroupRecord,
  rollouts: readonly RolloutFacts[],
  reason: string,
): Draft {
  const { feed, timeline } = fold.decisions;
  const { run, group, solo } = record.name;
  const members = rollouts.length > 0 ? rollouts : [...(record.ready?.rollouts ?? [])].flatMap((key) => fold.facts.rollouts.get(key) ?? []);
  return {
    type: 'group.closed',
    run,
    key: [record.key, 'failed'],
    data: {
      feed, timeline, group, ...(solo ? { solo } : {}), outcome: 'failed', reason,
      rollouts: members.map((rollout) => ({ rollout: rollout.rollout, length: lengthOf(rollout) })),
      positions: [...fold.facts.positions],
    },
  }; // prettier-ignore
}

/** Rollouts that their group does without: recorded once they have ended, with their length. Those that never will are not kept for ever. */
function stragglerDrafts({ fold, now, expiry }: JudgeContext, most: number): Draft[] {
  const { feed, timeline } = fold.decisions;
  const drafts: Draft[] = [];
  for (const key of fold.facts.stragglers) {
    if (drafts.length >= most) break;
    const rollout = fold.facts.rollouts.get(key);
    if (rollout === undefined || rollout.start === null) continue;
    const isOver = endOf(rollout) !== null || fold.facts.deletedRuns.has(rollout.run) || rollout.heard + expiry < now;
    if (!isOver) continue;
    drafts.push({
      type: 'sample.dropped',
      run: rollout.run,
      key: [key],
      data: {
        feed,
        timeline,
        run: rollout.run,
        group: rollout.start.group,
        rollout: rollout.rollout,
        reason: stragglerReason(fold, rollout),
        length: lengthOf(rollout),
      },
    });
  }
  return drafts;
}

/** `late` unless it had ended when its group was decided. */
function stragglerReason(fold: FeedFold, rollout: RolloutFacts): string {
  const end = endOf(rollout);
  if (end?.kind === 'cancelled') return 'cancelled';
  const record = fold.decisions.groups.get(groupOfRollout(rollout) ?? '');
  const limits = record?.ready?.limits ?? record?.sealed?.limits;
  const known = end !== null && end.offset < (limits?.[rollout.partition] ?? 0);
  if (!known) return 'late';
  return rollout.start?.mirrorOf === null ? (record?.sealed?.rollouts.has(rollout.key) ? 'unscored' : 'redundant') : 'mirror';
}
