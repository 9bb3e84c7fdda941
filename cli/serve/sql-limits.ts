import { DEFAULT_SQL_LIMITS, type SqlLimits } from '../../query/sql/limits.ts';
import type { Config } from '../config.ts';

/** What one query of a person may cost on this server. */
export function sqlLimits(config: Config): SqlLimits {
  return {
    ...DEFAULT_SQL_LIMITS,
    timeoutMs: config.sqlTimeoutMs,
    memoryBytes: config.sqlMaxMemory,
    resultRows: config.sqlMaxRows,
    resultBytes: config.sqlMaxBytes,
  };
}
