import type { KeyLimits } from '../../store/keys/key-record.ts';

/** What one query of a person may cost. Every limit is an error that names it, never a silently shorter answer. */
export type SqlLimits = {
  readonly timeoutMs: number;
  readonly memoryBytes: number;
  readonly readRows: number;
  readonly readBytes: number;
  readonly resultRows: number;
  readonly resultBytes: number;
  /** Queries at the same time; more are answered `overloaded`. */
  readonly concurrent: number;
};

export const DEFAULT_SQL_LIMITS: SqlLimits = {
  timeoutMs: 30_000,
  memoryBytes: 2 * 1024 ** 3,
  readRows: 2_000_000_000,
  readBytes: 100 * 1024 ** 3,
  resultRows: 10_000_000,
  resultBytes: 1024 ** 3,
  concurrent: 8,
};

/** Who asks, and the limits of its key: they can only narrow those of the server. */
export type SqlAccount = { readonly key: string; readonly limits: KeyLimits };

export function limitsFor(limits: SqlLimits, account: SqlAccount | null): SqlLimits {
  if (account === null) return limits;
  const { limits: own } = account;
  const least = (server: number, key: number | undefined): number => Math.min(server, key ?? Infinity);
  return {
    timeoutMs: least(limits.timeoutMs, own.sqlTimeoutMs),
    memoryBytes: least(limits.memoryBytes, own.sqlMemoryBytes),
    readRows: least(limits.readRows, own.sqlReadRows),
    readBytes: least(limits.readBytes, own.sqlReadBytes),
    resultRows: least(limits.resultRows, own.sqlResultRows),
    resultBytes: least(limits.resultBytes, own.sqlResultBytes),
    concurrent: least(limits.concurrent, own.sqlConcurrent),
  };
}

/** Longest query text, in bytes of UTF-8. */
export const MAX_QUERY_BYTES = 128 * 1024;

type Settings = Readonly<Record<string, string | number>>;

/** Bounds on the text itself: nesting and size of the syntax tree, so that checking stays cheap (the printed tree grows with both). */
export const PARSE_SETTINGS: Settings = {
  readonly: 1,
  max_query_size: 4 * MAX_QUERY_BYTES,
  max_parser_depth: 300,
  max_parser_backtracks: 100_000,
  max_ast_depth: 300,
  max_ast_elements: 20_000,
  max_expanded_ast_elements: 100_000,
};

/** Settings of the query of a person: read only, bounded, nothing spilled to disk; a missing side of a join is NULL, never 0. */
export function querySettings(limits: SqlLimits): Settings {
  return {
    ...PARSE_SETTINGS,
    max_memory_usage: limits.memoryBytes,
    max_rows_to_read: limits.readRows,
    max_bytes_to_read: limits.readBytes,
    read_overflow_mode: 'throw',
    max_result_rows: limits.resultRows,
    max_result_bytes: limits.resultBytes,
    result_overflow_mode: 'throw',
    max_bytes_before_external_group_by: 0,
    max_bytes_before_external_sort: 0,
    max_bytes_ratio_before_external_group_by: 0,
    max_bytes_ratio_before_external_sort: 0,
    function_range_max_elements_in_block: 100_000_000,
    join_use_nulls: 1,
    use_query_cache: 0,
  };
}
