/** Recomputes the summaries of rollouts and of their traces from the facts. */
import type { ColumnStore, QueryOptions } from './column-store.ts';
import type { RolloutKey } from './projections/touched.ts';
import { listSettings } from './sql-literal.ts';
import { rolloutSummarySql, traceSummarySql } from './summary-sql.ts';

/** Rollouts per statement. */
const CHUNK = 5_000;

export type SummaryOptions = {
  /** Sum of the position vector: how many records of the log the store holds. It only grows, so the row computed from more facts wins. */
  readonly version: number;
  /** The database of the tables, when it is not that of the connection. */
  readonly database?: string;
  readonly signal?: AbortSignal;
};

/**
 * Writes one summary row per touched rollout and one per trace of these rollouts: what a rollout says (group, task) is in its traces' rows too. A pure
 * function of the facts: calling it again, in any order, with the same facts gives the same rows. A rollout without facts gets no row.
 */
export async function refreshSummaries(
  store: ColumnStore,
  touched: { readonly rollouts: readonly RolloutKey[] },
  options: SummaryOptions,
): Promise<void> {
  const { rollouts } = touched;
  if (rollouts.length === 0) return;
  const query = queryOptions(options);
  const version = String(options.version);
  for (let at = 0; at < rollouts.length; at += CHUNK) {
    const chunk = rollouts.slice(at, at + CHUNK);
    for (const build of [traceSummarySql, rolloutSummarySql]) {
      const sql = build(chunk, version);
      await store.command(sql, { ...query, settings: listSettings(sql.length) });
    }
  }
}

function queryOptions({ database, signal }: SummaryOptions): QueryOptions {
  return { ...(database === undefined ? {} : { database }), ...(signal === undefined ? {} : { signal }) };
}
