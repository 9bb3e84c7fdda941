import type { TapedeckError } from '../../../base/errors.ts';
import { refusal } from './wire-error.ts';

/** Settings of every session: a server's defaults where the library's differ, and inserts that are stored when they return. */
export const SESSION_DEFAULTS: Readonly<Record<string, string>> = {
  async_insert: '0',
  implicit_select: '0',
  allow_introspection_functions: '0',
  max_execution_time: '3600',
};

/**
 * Settings that a request may name without effect: inserts are always synchronous here (one file, one statement), so what they promise is kept;
 * `log_comment` carries the query id.
 */
const WITHOUT_EFFECT = new Set([
  'async_insert',
  'wait_for_async_insert',
  'async_insert_busy_timeout_ms',
  'async_insert_max_data_size',
  'log_comment',
]);

/** The settings to apply: only names that the engine knows (`known`, from system.settings) pass. */
export function checkSettings(given: ReadonlyMap<string, string>, known: ReadonlySet<string>): ReadonlyMap<string, string> | TapedeckError {
  const checked = new Map<string, string>();
  for (const [name, value] of given) {
    if (!known.has(name)) return refusal(115, 'UNKNOWN_SETTING', `Unknown setting '${name}'`);
    if (!WITHOUT_EFFECT.has(name)) checked.set(name, value);
  }
  return checked;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0')}'`;
}

export function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}
