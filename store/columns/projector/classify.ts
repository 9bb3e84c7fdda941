/**
 * What becomes of each event of a block: a pure decision over what is already stored. Rules (identity is the log partition, the project and the id):
 * - the same id at the same offset is a redo of an unfinished block: stored again, which changes nothing;
 * - an id stored at a smaller offset is a duplicate when the content is equal, else a conflict: the first wins, the second is dead-lettered;
 * - a node, call or tool that exists with equal content is a duplicate, with other content a conflict;
 * - events of a deleted run are `deleted`, wherever they lie; so live and rebuilt agree.
 */
import type { ErrorCode } from '../../../base/errors.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { nothingKnown, type KnownFacts } from './known-facts.ts';

export type Status = 'stored' | 'duplicate' | 'conflict' | 'dead' | 'deleted';

/** What must be known of an event to decide about it: small, so that a block of decoded events is never held. Hashes are hex. */
export type Candidate = {
  readonly id: string;
  readonly type: TapedeckEvent['type'];
  readonly project: string;
  readonly run: string | undefined;
  readonly rollout: string | undefined;
  readonly partition: number;
  readonly offset: number;
  readonly eventHash: string;
  readonly dataHash: string;
  readonly entity: Entity | null;
};

export type Decision = {
  readonly status: Status;
  readonly code: ErrorCode | null;
  readonly reason: string;
  /** Offset of the event that came first, in the same partition. */
  readonly firstOffset: number | null;
};

export type KnownState = {
  /** What the store held when it was asked, and what was stored since: the latter is asked first. */
  readonly facts: readonly KnownFacts[];
  /** By `runKey`. */
  readonly deletedRuns: ReadonlySet<string>;
};

export function runKey(project: string, run: string): string {
  return JSON.stringify([project, run]);
}

/** The immutable entity an event creates, or null when it creates none that another event could contradict. */
export type Entity = {
  readonly table: 'nodes' | 'calls';
  readonly trace: TraceKey;
  /** `traceText` of the trace. */
  readonly traceText: string;
  readonly index: number;
};
export type TraceKey = readonly [project: string, run: string, rollout: string, trace: string];

export function entityOf(event: TapedeckEvent): Entity | null {
  if (event.type !== 'node.appended' && event.type !== 'call.recorded') return null;
  const { key, text } = namesOf(event.project ?? DEFAULT_PROJECT, event.run ?? '', event.rollout ?? '', event.trace ?? '');
  return { table: event.type === 'node.appended' ? 'nodes' : 'calls', trace: key, traceText: text, index: event.data.index };
}

type TraceNames = { readonly key: TraceKey; readonly text: string };
/** Neighbours mostly are of one trace: they share its names. */
let lastNames: TraceNames = { key: ['', '', '', ''], text: '' };

function namesOf(project: string, run: string, rollout: string, trace: string): TraceNames {
  const [lastProject, lastRun, lastRollout, lastTrace] = lastNames.key;
  if (trace !== lastTrace || rollout !== lastRollout || run !== lastRun || project !== lastProject) {
    const key = [project, run, rollout, trace] as const;
    lastNames = { key, text: traceText(key) };
  }
  return lastNames;
}

/** One text per key: lengths keep ids apart, whatever characters they hold. */
export function traceText([project, run, rollout, trace]: TraceKey): string {
  return `${project.length},${run.length},${rollout.length},${project}${run}${rollout}${trace}`;
}

const STORED: Decision = { status: 'stored', code: null, reason: '', firstOffset: null };

/** Decides for all candidates of a block, which come in log order per partition. `stored` are the facts of those that are stored. */
export function classify(
  candidates: readonly Candidate[],
  known: KnownState,
): { readonly decisions: Decision[]; readonly stored: KnownFacts } {
  const stored = nothingKnown();
  const facts = [stored, ...known.facts];
  const decisions = candidates.map((candidate) => {
    const decision = decide(candidate, known.deletedRuns, facts);
    if (decision.status === 'stored') remember(candidate, stored);
    return decision;
  });
  return { decisions, stored };
}

/** What these stored events make known. */
export function factsOf(stored: readonly Candidate[]): KnownFacts {
  const facts = nothingKnown();
  for (const candidate of stored) remember(candidate, facts);
  return facts;
}

function remember(candidate: Candidate, { ids, entities }: KnownFacts): void {
  const { offset, entity } = candidate;
  ids.set(candidate, { offset, hash: candidate.eventHash });
  if (entity !== null) entities.set(entity, { offset, hash: candidate.dataHash });
}

function firstOf<T>(facts: readonly KnownFacts[], find: (facts: KnownFacts) => T | undefined): T | undefined {
  for (const each of facts) {
    const found = find(each);
    if (found !== undefined) return found;
  }
  return undefined;
}

function decide(candidate: Candidate, deletedRuns: ReadonlySet<string>, facts: readonly KnownFacts[]): Decision {
  const { type, project, run, offset } = candidate;
  if (deletedRuns.size > 0 && run !== undefined && type !== 'run.deleted' && deletedRuns.has(runKey(project, run))) {
    return { status: 'deleted', code: 'run_deleted', reason: 'the run was deleted', firstOffset: null };
  }
  const sameId = firstOf(facts, ({ ids }) => ids.get(candidate));
  if (sameId !== undefined && sameId.offset < offset) {
    return sameId.hash === candidate.eventHash
      ? { status: 'duplicate', code: null, reason: 'sent again', firstOffset: sameId.offset }
      : {
          status: 'conflict',
          code: 'id_reused',
          reason: 'the id came back with other content; the first is kept',
          firstOffset: sameId.offset,
        };
  }
  const { entity } = candidate;
  if (entity === null) return STORED;
  const same = firstOf(facts, ({ entities }) => entities.get(entity));
  if (same === undefined || same.offset >= offset) return STORED;
  return same.hash === candidate.dataHash
    ? { status: 'duplicate', code: null, reason: `${entity.table} ${entity.index} is stored already`, firstOffset: same.offset }
    : {
        status: 'conflict',
        code: 'entity_conflict',
        reason: `${entity.table} ${entity.index} exists with other content; the first is kept`,
        firstOffset: same.offset,
      };
}
