/** One analytics question on its way to the store: a project, a position, limits. */
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions, SqlParams } from '../../store/columns/column-store.ts';
import { formatPosition, upTo, type AsOf, type Position } from './as-of.ts';
import type { PositionReader, ResolvedPosition } from './log-position.ts';

const TIMEOUT_MS = 60_000;
const SETTINGS = {
  readonly: 1,
  max_memory_usage: 3 * 1024 ** 3,
  max_result_bytes: 1024 ** 3,
  result_overflow_mode: 'throw',
  join_use_nulls: 1,
  max_query_size: 4 * 1024 * 1024,
} as const;
/** ClickHouse's codes for too much memory, time, or result. */
const TOO_LARGE = new Set([158, 241, 307, 396]);

/** Where an answer was computed. Asking again with `asOf` = `position` gives the same answer for ever, until the run is deleted. */
export type AnsweredAsOf = {
  readonly position: string;
  /** False for a time that some partition has not passed yet (log-position.ts): then keep the position, not the time. */
  readonly settled: boolean;
};

export type Reader = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly position: Position;
  /** `AND …` terms that every read of a fact table carries: the project and the position. `{project:String}` is bound. */
  within(alias?: string): string;
  rows<T>(sql: string, params?: SqlParams): Promise<T[]>;
};

export type ReaderRequest = { readonly project: string; readonly asOf: AsOf; readonly signal: AbortSignal };

/** The tables lie in the connection's own database, since a project's views show the latest state only; every read carries the project as a parameter. */
export async function openReader(store: ColumnStore, positions: PositionReader, { project, asOf, signal }: ReaderRequest): Promise<Reader> {
  const options: QueryOptions = { settings: SETTINGS, timeoutMs: TIMEOUT_MS, signal };
  return readerAt(store, project, await positions(asOf, project, options), options);
}

function readerAt(store: ColumnStore, project: string, { position, settled }: ResolvedPosition, options: QueryOptions): Reader {
  return {
    project,
    position,
    asOf: { position: formatPosition(position), settled },
    within: (alias = '') => `${alias}project = {project:String} AND ${upTo(position, alias)}`,
    rows: async (sql, params = {}) => {
      try {
        return await store.rows(sql, { ...options, params: { ...params, project } });
      } catch (error) {
        throw explained(error);
      }
    },
  };
}

function explained(error: unknown): unknown {
  if (!isTapedeckError(error) || !TOO_LARGE.has(Number(error.details['clickhouseCode']))) return error;
  return new TapedeckError('result_too_large', 'the run is too large for one answer: narrow it by env, step or policyVersion', {
    cause: error,
    details: error.details,
  });
}
