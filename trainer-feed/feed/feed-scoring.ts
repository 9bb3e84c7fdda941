/** What reducers and teachers have to do with a feed: what its groups lack, who is asked for it, and what will never come. */
import type { Clock } from '../../base/clock.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { GroupFacts } from '../groups/group-facts.ts';
import type { RolloutFacts } from '../groups/rollout-facts.ts';
import { GroupScorer, type WaitingGroup } from '../scoring/group-scorer.ts';
import { debtsOf, sayDebts, type GroupDebts } from '../scoring/owed.ts';
import type { ScoringUpstreams } from '../scoring/upstream.ts';
import type { FeedFold } from './fold.ts';
import { envOf, type GroupNotes, type JudgeContext } from './group-decisions.ts';
import type { FeedFiles, FeedOrigin } from './open-feed.ts';
import { policyVersionOf } from './policy-version.ts';
import { groupPolicyOf } from './spec.ts';

type Ports = {
  readonly events: EventLog;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly upstreams: ScoringUpstreams;
  readonly onTrouble: (error: unknown, feed: string) => void;
};

export class FeedScoring {
  readonly #origin: FeedOrigin;
  readonly #scorer: GroupScorer;

  constructor(origin: FeedOrigin, ports: Ports, changed: () => void) {
    this.#origin = origin;
    const { events, blobs, clock, upstreams, onTrouble } = ports;
    const { project, feed } = origin;
    this.#scorer = new GroupScorer({ project, events, blobs, clock, upstreams, changed, onTrouble: (error) => onTrouble(error, feed) });
  }

  /** Before a pass reads: what failed until now is judged after it has read. */
  noteFailures(fold: FeedFold): void {
    for (const key of this.#scorer.takeFailed()) fold.touched.add(key);
  }

  /** What judging a group needs to know. */
  judging(fold: FeedFold): Pick<JudgeContext, 'policyOf' | 'owed' | 'failure'> {
    return {
      policyOf: (env) => groupPolicyOf(this.#origin.resolved, env),
      owed: (group, members) => sayDebts(this.#debts(fold, group, members), fold.facts.admission.teacherOf(envOf(fold, group))),
      failure: (group) => this.#scorer.failureOf(group.key)?.reason ?? null,
    };
  }

  /** Takes up what waits. Only when the log was read to its end. */
  attend({ fold, rows }: FeedFiles, notes: GroupNotes): void {
    const waiting = new Map<string, () => WaitingGroup>();
    for (const [key, { members, until }] of notes.scoring) {
      const group = fold.facts.groups.get(key);
      if (group !== undefined) waiting.set(key, () => this.#describe(fold, group, members, until));
    }
    this.#scorer.attend(waiting, rows);
  }

  #describe(fold: FeedFold, group: GroupFacts, members: readonly RolloutFacts[], until: number): WaitingGroup {
    const env = envOf(fold, group);
    const algorithm = this.#origin.resolved.cut.envOf(env)?.algorithm;
    if (algorithm === undefined) throw new Error(`group ${group.key} waits for scores, and its env ${env} is not in the spec`);
    return {
      key: group.key,
      debts: this.#debts(fold, group, members),
      algorithm,
      teacher: fold.facts.admission.teacherOf(env),
      policyVersion: policyVersionOf(fold),
      msLeft: (until - fold.now) / 1000,
    };
  }

  #debts(fold: FeedFold, group: GroupFacts, members: readonly RolloutFacts[]): GroupDebts {
    const { cut } = this.#origin.resolved;
    const env = envOf(fold, group);
    return debtsOf(group, members, {
      project: this.#origin.project,
      env: cut.envOf(env),
      teacher: fold.facts.admission.teacherOf(env),
      maxRowTokens: cut.spec.maxRowTokens,
      dropsOverLength: cut.spec.overLength !== 'truncate',
    });
  }

  close(): Promise<void> {
    return this.#scorer.close();
  }
}
