/**
 * What becomes of each event of a block: a pure decision over what is already stored. Rules (identity is the log partition plus the id):
 * - the same id at the same offset is a redo of an unfinished block: stored again, which changes nothing;
 * - an id stored at a smaller offset is a duplicate when the content is equal, else a conflict: the first wins, the second is dead-lettered;
 * - a node, call or tool that exists with equal content is a duplicate, with other content a conflict;
 * - events of a deleted run are `deleted`, wherever they lie; so live and rebuilt agree.
 */
import type { ErrorCode } from '../../../base/errors.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';

export type Status = 'stored' | 'duplicate' | 'conflict' | 'dead' | 'deleted';
export type Known = { readonly offset: number; readonly hash: string };

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
  /** By `idKey`. */
  readonly ids: ReadonlyMap<string, Known>;
  /** By `entityKey`. */
  readonly entities: ReadonlyMap<string, Known>;
  /** By `runKey`. */
  readonly deletedRuns: ReadonlySet<string>;
};

export function idKey(partition: number, id: string): string {
  return `${partition}/${id}`;
}

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
  const trace = [event.project ?? DEFAULT_PROJECT, event.run ?? '', event.rollout ?? '', event.trace ?? ''] as const;
  return { table: event.type === 'node.appended' ? 'nodes' : 'calls', trace, traceText: traceText(trace), index: event.data.index };
}

/** One text per key: lengths keep ids apart, whatever characters they hold. */
export function traceText([project, run, rollout, trace]: TraceKey): string {
  return `${project.length},${run.length},${rollout.length},${project}${run}${rollout}${trace}`;
}

export function entityKey(entity: Pick<Entity, 'table' | 'traceText' | 'index'>): string {
  return `${entity.table}/${entity.index}/${entity.traceText}`;
}

const STORED: Decision = { status: 'stored', code: null, reason: '', firstOffset: null };

/** Decides for all candidates of a block, which come in log order per partition. */
export function classify(candidates: readonly Candidate[], known: KnownState): Decision[] {
  const ids = new Map<string, Known>();
  const entities = new Map<string, Known>();
  return candidates.map((candidate) => {
    const decision = decide(candidate, known, ids, entities);
    if (decision.status === 'stored') remember(candidate, ids, entities);
    return decision;
  });
}

/** Adds what a stored event makes known. */
export function remember(candidate: Candidate, ids: Map<string, Known>, entities: Map<string, Known>): void {
  const { id, partition, offset, entity } = candidate;
  ids.set(idKey(partition, id), { offset, hash: candidate.eventHash });
  if (entity !== null) entities.set(entityKey(entity), { offset, hash: candidate.dataHash });
}

function decide(candidate: Candidate, known: KnownState, ids: ReadonlyMap<string, Known>, entities: ReadonlyMap<string, Known>): Decision {
  const { type, project, run, partition, offset } = candidate;
  if (known.deletedRuns.size > 0 && run !== undefined && type !== 'run.deleted' && known.deletedRuns.has(runKey(project, run))) {
    return { status: 'deleted', code: 'run_deleted', reason: 'the run was deleted', firstOffset: null };
  }
  const id = idKey(partition, candidate.id);
  const sameId = ids.get(id) ?? known.ids.get(id);
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
  const key = entityKey(entity);
  const same = entities.get(key) ?? known.entities.get(key);
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
