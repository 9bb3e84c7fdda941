/** Ready decisions on their way out: with running baselines, in the order in which they will be read back; and those for groups that another feed chose. */
import { recordBaselines } from '../cut/running-baseline.ts';
import { groupKey, rolloutKey } from '../groups/keys.ts';
import { memberTrace, type LoadColumns } from '../groups/member-trace.ts';
import type { RolloutFacts } from '../groups/rollout-facts.ts';
import type { Draft } from './draft.ts';
import type { FeedFold } from './fold.ts';
import type { FeedOrigin } from './open-feed.ts';
import type { GivenGroup } from './other-feed.ts';

type From = { readonly fold: FeedFold; readonly rows: LoadColumns; readonly origin: FeedOrigin };

/** With `rewardsAsOf: latest` nothing is decided before the log was read up to where it ended when the feed was created. */
export function readyEnough({ facts }: FeedFold, { end, resolved }: FeedOrigin): boolean {
  return (
    resolved.spec.rewardsAsOf !== 'latest' || end === null || end.every((offset, partition) => (facts.positions[partition] ?? 0) >= offset)
  );
}

/** Records in each ready decision what running baselines it read and how it moved them: they move in the order of the decisions. */
export function withBaselines(drafts: readonly Draft[], from: From): Draft[] {
  const state = new Map(from.fold.decisions.baselines);
  return drafts.map((draft) => (draft.type === 'group.ready' ? withBaseline(draft, state, from) : draft));
}

function withBaseline(draft: Extract<Draft, { type: 'group.ready' }>, state: Map<string, number>, { fold, rows, origin }: From): Draft {
  const { cut } = origin.resolved;
  const run = draft.run ?? '';
  const names = draft.data.members as readonly { readonly rollout: string; readonly trace: string }[];
  const facts = names.map(({ rollout }) => fold.facts.rollouts.get(rolloutKey(run, rollout)));
  const env = facts[0]?.start?.env ?? '';
  if ((cut.envOf(env)?.algorithm.baseline ?? null) === null) return draft;
  const members = names.flatMap(({ trace }, i) =>
    facts[i] === undefined ? [] : [memberTrace(facts[i], trace, rows, fold.decisions.foreign, null)],
  );
  const recorded = recordBaselines(cut, { group: draft.data.group, env, readyAt: 0, members, baselines: null }, state);
  if (recorded === null) return draft;
  const after = Object.fromEntries(recorded.steps.map((step) => [JSON.stringify([step.env, step.agent]), step.after]));
  return { ...draft, data: { ...draft.data, baselines: [...recorded.baselines], baselinesAfter: after } };
}

/** Where rewards are read up to: where the other feed read, or, `rewardsAsOf: latest`, where the log ended when this feed was created; but never less than the group is made of. */
function limitsOf({ resolved, end }: FeedOrigin, theirs: readonly number[]): readonly number[] {
  if (resolved.spec.rewardsAsOf !== 'latest' || end === null) return theirs;
  return end.map((offset, partition) => Math.max(offset, theirs[partition] ?? 0));
}

/** Whether the rollout was read from its beginning and has the trace, within the limits: what lies beyond is forgotten once the group is ready. */
function isThere(rollout: RolloutFacts | undefined, trace: string, limits: readonly number[]): boolean {
  if (rollout === undefined || rollout.start === null) return false;
  const found = rollout.traces.get(trace);
  const limit = limits[rollout.partition] ?? 0;
  return found !== undefined && found.offset < limit && rollout.start.offset < limit;
}

/**
 * Ready decisions for groups that another feed chose, with its members, and with rewards as it saw them or, `rewardsAsOf: latest`, as they were when this feed was created.
 * A group whose rollouts this feed does not admit is given up.
 */
export function givenDrafts(groups: readonly GivenGroup[], from: From & { readonly caughtUp: boolean }): Draft[] {
  const { fold, origin, caughtUp } = from;
  const { feed, timeline } = fold.decisions;
  const drafts: Draft[] = [];
  for (const { run, group, solo, members, limits: theirs } of groups) {
    const key = groupKey({ run, group, solo });
    if (fold.decisions.groups.get(key)?.ready || fold.decisions.gone.has(key)) continue;
    const limits = limitsOf(origin, theirs);
    if (limits.some((limit, partition) => (fold.facts.positions[partition] ?? 0) < limit)) continue; // it is being read
    const common = { feed, timeline, group, ...(solo ? { solo } : {}) };
    const isKnown = members.every((member) => isThere(fold.facts.rollouts.get(rolloutKey(run, member.rollout)), member.trace, limits));
    if (isKnown)
      drafts.push({
        type: 'group.ready',
        run,
        key: [key],
        data: { ...common, reason: 'as', members: [...members], rewardPositions: [...limits] },
      });
    else if (caughtUp) {
      const rollouts = members.map(({ rollout }) => ({ rollout }));
      drafts.push({
        type: 'group.closed',
        run,
        key: [key, 'failed'],
        data: { ...common, outcome: 'failed', reason: 'not_admitted', rollouts, positions: [...fold.facts.positions] },
      });
    }
  }
  return withBaselines(drafts, from);
}
