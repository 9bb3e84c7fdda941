/**
 * One feed in memory: its decisions and the facts of the rollouts that concern it, folded together from two topics. For the same prefix of every partition the result is
 * the same, however the reads were interleaved and wherever the process was killed in between; `stateBytes` (state-codec.ts) shows it.
 */
import type { TapedeckEvent } from '../../events/registry.ts';
import type { Admission } from '../groups/admission.ts';
import {
  applyEvent, newFacts, onDropped, onGone, onReady, onSealed, type ColumnsStore, type Decided, type FeedFacts, type GroupDecided, type Place,
} from '../groups/group-facts.ts'; // prettier-ignore
import { groupOfRollout } from '../groups/group-judge.ts';
import { applyDecision, type Effect, type FeedEvent, type Floor, type Verdict } from './apply-decision.ts';
import { newDecisions, type DecisionState, type FeedIdentity } from './decision-state.ts';

export type FeedFold = {
  readonly decisions: DecisionState;
  readonly facts: FeedFacts;
  readonly columns: ColumnsStore;
  readonly decided: Decided;
  readonly floors: readonly Floor[];
  /**
   * The feed's own clock, microseconds: how long it has run in all. Deadlines are measured by it, so that neither the clocks of producers nor a time in which the feed stood still
   * make them pass.
   */
  now: number;
  /** Next offset of the feed's own partition. */
  nextDecision: number;
  /** Groups that something happened to since they were last judged. */
  readonly touched: Set<string>;
  /** A rewind wants back what was let go, from above this batch: the fold must begin anew. */
  rebuildAbove: number | null;
  /** The facts of every live batch above this number are at hand. Infinity = not known: a state that was read from a checkpoint, whose files may be older than it. */
  holdsAbove: number;
};

export function newFold(
  identity: FeedIdentity,
  admission: Admission,
  nextDecision: number,
  columns: ColumnsStore,
  floors: readonly Floor[],
): FeedFold {
  return { ...foldOver(newDecisions(identity), newFacts(admission, identity.start), nextDecision, columns, floors), holdsAbove: 0 };
}

/** The fold that goes on from known state. */
export function foldOver(
  decisions: DecisionState,
  facts: FeedFacts,
  nextDecision: number,
  columns: ColumnsStore,
  floors: readonly Floor[],
): FeedFold {
  const decided: Decided = { group: (key) => groupDecided(decisions, key), isClosed: (rollout) => decisions.closed.has(rollout) };
  const touched = new Set(facts.groups.keys());
  return { decisions, facts, columns, decided, floors, nextDecision, touched, rebuildAbove: null, holdsAbove: Infinity, now: 0 };
}

const NONE: GroupDecided = { kind: 'none' };
const GONE: GroupDecided = { kind: 'gone' };

function groupDecided(decisions: DecisionState, key: string): GroupDecided {
  const group = decisions.groups.get(key);
  if (group === undefined) return decisions.gone.has(key) ? GONE : NONE;
  if (group.ready !== null) return { kind: 'ready', rollouts: group.ready.rollouts, limits: group.ready.limits };
  return group.sealed === null ? NONE : { kind: 'sealed', rollouts: group.sealed.rollouts };
}

/** Folds one event of the events topic; offsets of a partition come in order. */
export function foldEvent(fold: FeedFold, event: TapedeckEvent, place: Place): void {
  const group = applyEvent(event, place, fold);
  if (group !== null) fold.touched.add(group);
  if (event.type === 'run.ended' || event.type === 'run.deleted') {
    for (const { key, name } of fold.facts.groups.values()) if (name.run === event.run) fold.touched.add(key);
  }
}

/** Everything of `partition` below `next` was read. */
export function advance(fold: FeedFold, partition: number, next: number): void {
  fold.facts.positions[partition] = next;
}

/** Folds one event of the feed's own partition. */
export function foldDecision(fold: FeedFold, event: FeedEvent, offset: number): Verdict {
  const verdict = applyDecision(event, offset, { state: fold.decisions, floors: fold.floors });
  fold.nextDecision = offset + 1;
  if (verdict.counts) for (const effect of verdict.effects) carryOut(fold, effect);
  return verdict;
}

function carryOut(fold: FeedFold, effect: Effect): void {
  switch (effect.kind) {
    case 'sealed':
      onSealed(effect.group, effect.rollouts, fold);
      fold.touched.add(effect.group);
      break;
    case 'ready':
      onReady(effect.group, effect.ready.rollouts, effect.ready.limits, fold);
      fold.touched.delete(effect.group);
      break;
    case 'gone':
      onGone(effect.group, effect.rollouts, fold);
      fold.touched.delete(effect.group);
      break;
    case 'dropped':
      onDropped(effect.rollout, fold);
      break;
    case 'rebuild':
      fold.rebuildAbove = Math.min(effect.above, fold.rebuildAbove ?? Infinity);
      break;
    case 'forgotten':
      fold.holdsAbove = Math.max(fold.holdsAbove, effect.n);
      break;
    case 'cut':
      break;
  }
}

/** Key of the group of a rollout, if it has started. */
export function groupOf(fold: FeedFold, rollout: string): string | null {
  const facts = fold.facts.rollouts.get(rollout);
  return facts === undefined ? null : groupOfRollout(facts);
}
