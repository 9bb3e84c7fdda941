/**
 * Stores one block: rows of every table, then the ledger, `log_index` last. A block the store has no memory for is halved; a block with data
 * the store refuses is bisected until the single event is found, which is dead-lettered with the store's reason, and the rest goes on.
 * Halves are in log order, so the ledger never runs ahead of the facts of an earlier offset.
 */
import { isTapedeckError } from '../../../base/errors.ts';
import type { ColumnStore } from '../column-store.ts';
import type { Block } from '../projections/block.ts';
import { deadLetter, ledger } from '../projections/ledger.ts';
import { project } from '../projections/project.ts';
import type { Decision } from './classify.ts';
import { storedOf, type Item } from './read-block.ts';
import { storeVerdict } from './store-verdict.ts';

/** Where a crash test may end the process. */
export type BlockPoint = 'between-tables' | 'before-log-index' | 'after-log-index';

/** An item with what was decided about it. */
export type Judged = { readonly item: Item; readonly decision: Decision };

type Context = {
  /** Emptied and filled again for every part, so that its buffers are made once. */
  readonly block: Block;
  readonly store: ColumnStore;
  /** Runs an insert with patience for whatever may pass; throws what halving or bisection must handle. */
  readonly insert: (work: (signal: AbortSignal) => Promise<void>) => Promise<void>;
  readonly reached: (point: BlockPoint) => void;
  readonly signal: AbortSignal;
};

/** Returns the final decisions, in the order of `judged`. With `filled` the block holds the rows of exactly these decisions already. */
export async function storeBlock(judged: readonly Judged[], context: Context, filled = false): Promise<Decision[]> {
  if (judged.length === 0) return [];
  const decisions = filled ? judged.map(({ decision }) => decision) : fillBlock(judged, context.block);
  try {
    await insertAll(context);
    return decisions;
  } catch (error) {
    context.signal.throwIfAborted();
    const verdict = storeVerdict(error);
    if (verdict !== 'poison' && verdict !== 'halve') throw error;
    if (judged.length > 1) {
      const middle = judged.length >> 1;
      const first = await storeBlock(judged.slice(0, middle), context);
      return [...first, ...(await storeBlock(judged.slice(middle), context))];
    }
    const [{ item, decision }] = judged as [Judged];
    if (decision.status !== 'stored') throw error;
    return storeBlock([{ item, decision: deadBecause(error) }], context);
  }
}

/** All rows of the block. An event whose projection fails must leave no half row behind: it is dead-lettered and the block is filled anew without it. */
function fillBlock(judged: readonly Judged[], block: Block): Decision[] {
  const decisions = judged.map(({ decision }) => decision);
  for (;;) {
    block.clear();
    const failed = judged.findIndex(({ item }, i) => {
      try {
        addRows(item, decisions[i] as Decision, block);
        return false;
      } catch (error) {
        decisions[i] = deadBecause(error);
        return true;
      }
    });
    if (failed < 0) return decisions;
  }
}

/** The rows of one record and its books. */
function addRows(item: Item, decision: Decision, block: Block): void {
  if (item.candidate === null) {
    deadLetter({ ...item, bytes: item.slice }, decision.code ?? 'internal', decision.reason, block);
    return;
  }
  const stored = storedOf(item);
  if (decision.status === 'stored') project(stored, block);
  ledger(stored, decision.status, { code: decision.code, message: decision.reason, firstOffset: decision.firstOffset }, block);
}

function deadBecause(error: unknown): Decision {
  const reason = error instanceof Error ? error.message : String(error);
  const code = isTapedeckError(error) ? error.code : 'internal';
  return { status: 'dead', code, reason: reason.slice(0, 4096), firstOffset: null };
}

/**
 * One Native block per table that has rows: the facts side by side; when all are stored the ids, by which a later event is known for a duplicate; then `log_index`,
 * whose rows say that everything else is there.
 */
async function insertAll({ block, store, insert, reached }: Context): Promise<void> {
  const insertOne = async (table: Block['tables'][number]): Promise<void> => {
    if (table.rows === 0) return;
    const pieces = table.pieces();
    await insert((signal) => store.insertNative(table.name, table.columnNames, pieces, { signal }));
  };
  const facts = block.tables.filter((table) => table !== block.eventIds && table !== block.logIndex);
  const results = await Promise.allSettled(facts.map(async (table) => insertOne(table).then(() => reached('between-tables'))));
  // all have settled: nothing of this block is still on its way when it is tried again or cut
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  await insertOne(block.eventIds);
  reached('before-log-index');
  await insertOne(block.logIndex);
  reached('after-log-index');
}
