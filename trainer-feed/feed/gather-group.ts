/** A ready group as the cut sees it: facts as of its ready decision, columns out of the row file. */
import type { ReadyGroup } from '../groups/ready-group.ts';
import { memberTrace, type LoadColumns } from '../groups/member-trace.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { GroupRecord, ReadyRecord } from './decision-state.ts';
import type { FeedFold } from './fold.ts';

/** Whether the facts that the ready decision rests on have been read. */
export function isGathered(fold: FeedFold, ready: ReadyRecord): boolean {
  const { positions } = fold.facts;
  return ready.limits.every((limit, partition) => (positions[partition] ?? 0) >= limit);
}

/** Throws `cache_corrupt` when facts or columns are not there: the feed is then folded anew. */
export function gatherGroup(fold: FeedFold, record: GroupRecord, load: LoadColumns): ReadyGroup {
  const { ready, name } = record;
  if (ready === null) throw new Error(`group ${name.group} is not ready`);
  const members = ready.members.map(({ rollout, trace }) => {
    const facts = fold.facts.rollouts.get(rollout);
    if (facts === undefined || !facts.traces.has(trace)) {
      throw new TapedeckError('cache_corrupt', `the facts of group ${name.group} are not at hand: the feed is folded anew`);
    }
    return memberTrace(facts, trace, load, fold.decisions.foreign, fold.facts.admission.teacherOf(facts.start?.env ?? ''));
  });
  return { group: name.group, env: members[0]?.env ?? '', readyAt: ready.offset, members, baselines: ready.baselines };
}
