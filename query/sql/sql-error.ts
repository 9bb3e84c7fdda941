import { TapedeckError } from '../../base/errors.ts';
import type { Problem } from '../../base/result.ts';
import { projectDatabase } from '../../store/columns/project-database.ts';
import type { SqlLimits } from './limits.ts';
import { offsetOfByte, offsetOfName, positionAt } from './sql-position.ts';
import type { SqlPosition } from './sql-position.ts';

/** ClickHouse codes that name something of the query: unknown function, identifier, table. */
const NAMES_SOMETHING = new Set([46, 47, 60]);
const UNKNOWN_DATABASE = 81;
const MEMORY_LIMIT = 241;
const TOO_SLOW = 160;

/** A refusal of the guard, with the place of what was refused when the text holds it. */
export function refusal(problem: Problem, query: string): TapedeckError {
  const offset = problem.field === undefined ? undefined : offsetOfName(query, problem.field);
  return new TapedeckError(problem.code, problem.message, {
    details: { ...(problem.field === undefined ? {} : { refused: problem.field }), ...place(query, offset) },
  });
}

/**
 * An error of the engine about a query as the caller shall see it: ClickHouse's code, type and words, the position in the caller's own text,
 * and for limits which one and how to stay below it. Errors that are not about the query (store unavailable, aborted) pass unchanged.
 */
export function explainSqlError(error: unknown, query: string, limits: SqlLimits, project: string): TapedeckError {
  if (!(error instanceof TapedeckError)) return new TapedeckError('internal', 'the query failed unexpectedly', { cause: error });
  const code = typeof error.details['clickhouseCode'] === 'number' ? error.details['clickhouseCode'] : undefined;
  const engine = code === undefined ? {} : { clickhouseCode: code, clickhouseType: error.details['clickhouseType'] };
  if (error.code === 'query_timeout' || error.code === 'deadline_exceeded' || code === TOO_SLOW) {
    return limitError(
      'query_timeout',
      `the query took longer than ${limits.timeoutMs} ms: narrow it by run, rollout or trace`,
      error,
      engine,
    );
  }
  if (code === MEMORY_LIMIT) {
    return limitError(
      'result_too_large',
      `the query needed more than ${limits.memoryBytes} bytes of memory: narrow it or select fewer columns`,
      error,
      engine,
    );
  }
  if (error.code === 'result_too_large') {
    return limitError(
      'result_too_large',
      `${tidy(error.message, projectDatabase(project))}. Limits: ${limitText(limits)}; narrow the query or add LIMIT`,
      error,
      engine,
    );
  }
  if (code === UNKNOWN_DATABASE)
    return new TapedeckError('not_found', `the project "${project}" has no data yet`, { cause: error, details: { project } });
  if (code === undefined || error.code !== 'sql_error') return error;
  const message = tidy(error.message, projectDatabase(project));
  return new TapedeckError('sql_error', message, {
    cause: error,
    details: { ...engine, ...place(query, offsetIn(error.message, query, code)) },
  });
}

function limitError(
  code: 'query_timeout' | 'result_too_large',
  message: string,
  cause: unknown,
  details: Record<string, unknown>,
): TapedeckError {
  return new TapedeckError(code, message, { cause, details });
}

function limitText(limits: SqlLimits): string {
  return `${limits.resultRows} result rows, ${limits.resultBytes} result bytes, ${limits.readRows} rows and ${limits.readBytes} bytes read`;
}

function place(query: string, offset: number | undefined): { position?: SqlPosition } {
  return offset === undefined ? {} : { position: positionAt(query, offset) };
}

/** ClickHouse's words without its frame, without our wrapping call, and without hints that name tables of other databases. */
function tidy(message: string, database: string): string {
  return message
    .replaceAll(`${database}.`, '')
    .replace(/^(?:Code: \d+\. DB::Exception: )+/, '')
    .replace(/: (?:In scope|While processing|while executing).*formatQuery\([^]*$/i, '')
    .replace(/ \([A-Z_]+\)(?: \(version [^)]*\))?\.?$/, '')
    .replaceAll(/\.? Maybe you meant:? [^?\n]*\.[^?\n]*\?/g, '')
    .replace(/[.\s]+$/, '');
}

function offsetIn(message: string, query: string, code: number): number | undefined {
  const byte = /failed at position (\d+)/.exec(message)?.[1];
  if (byte !== undefined) return offsetOfByte(query, Number(byte));
  const name = NAMES_SOMETHING.has(code) ? /[`']([^`'\n]{1,256})[`']/.exec(message)?.[1] : undefined;
  return name === undefined ? undefined : offsetOfName(query, name);
}
