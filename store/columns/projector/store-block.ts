/**
 * Stores one judged block: rows of every table, then the ledger, `log_index` last. A block the store has no memory for is halved; a block with data
 * the store refuses is bisected until the single event is found, which is dead-lettered with the store's reason, and the rest goes on.
 * Halves are in log order, so the ledger never runs ahead of the facts of an earlier offset.
 */
import { isTapedeckError } from '../../../base/errors.ts';
import type { ColumnStore } from '../column-store.ts';
import { createBlock, type Block, type StoredEvent } from '../projections/block.ts';
import { deadLetter, ledger } from '../projections/ledger.ts';
import { project } from '../projections/project.ts';
import type { Candidate, Decision } from './classify.ts';
import type { Unreadable } from './read-block.ts';
import { storeVerdict } from './store-verdict.ts';

/** One record of the block with its decision: either an event or something unreadable. */
export type Judged = {
  readonly stored: StoredEvent | null;
  readonly unreadable: Unreadable | null;
  readonly candidate: Candidate | null;
  readonly decision: Decision;
};

type Context = {
  readonly store: ColumnStore;
  /** Runs an insert with patience for whatever may pass; throws what halving or bisection must handle. */
  readonly insert: (work: () => Promise<void>) => Promise<void>;
  readonly signal: AbortSignal;
};

/** Returns the final decisions, in the order of `judged`. */
export async function storeBlock(judged: readonly Judged[], context: Context): Promise<Decision[]> {
  if (judged.length === 0) return [];
  const block = createBlock();
  const decisions = judged.map((item) => projectOne(item, block));
  try {
    await insertAll(block, context);
    return decisions;
  } catch (error) {
    context.signal.throwIfAborted();
    const verdict = storeVerdict(error);
    if (judged.length > 1) {
      const middle = judged.length >> 1;
      const first = await storeBlock(judged.slice(0, middle), context);
      return [...first, ...(await storeBlock(judged.slice(middle), context))];
    }
    const item = judged[0] as Judged;
    if (item.decision.status !== 'stored' || (verdict !== 'poison' && verdict !== 'halve')) throw error;
    const dead = deadBecause(error);
    return storeBlock([{ ...item, decision: dead }], context);
  }
}

/** Adds the rows of one event and its ledger row. An event whose projection fails leaves no half rows behind: it is dead-lettered. */
function projectOne(item: Judged, block: Block): Decision {
  let { decision } = item;
  if (item.stored !== null && decision.status === 'stored') {
    const mark = block.mark();
    try {
      project(item.stored, block);
    } catch (error) {
      block.rollback(mark);
      decision = deadBecause(error);
    }
  }
  ledger(item, decision, block);
  if (decision.status === 'dead' || decision.status === 'conflict') deadLetter(item, decision, block);
  return decision;
}

function deadBecause(error: unknown): Decision {
  const reason = error instanceof Error ? error.message : String(error);
  const code = isTapedeckError(error) ? error.code : 'internal';
  return { status: 'dead', code, reason: reason.slice(0, 4096), firstOffset: null };
}

async function insertAll(block: Block, { store, insert, signal }: Context): Promise<void> {
  for (const table of block.tables) {
    if (table.rows === 0) continue;
    const bytes = table.encode();
    await insert(() => store.insertNative(table.name, table.columnNames, bytes, { signal }));
  }
}
