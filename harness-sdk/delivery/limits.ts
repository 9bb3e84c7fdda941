/** What a recorder may use, and how long it waits. Every field has a default; sizes are bytes, times milliseconds. */
import { TapedeckError } from '../../base/errors.ts';
import type { SpoolOptions } from './reports.ts';

export type Limits = {
  readonly memoryBytes: number;
  readonly batchBytes: number;
  readonly batchEvents: number;
  readonly lingerMs: number;
  readonly requestMs: number;
  readonly closeMs: number;
};
export type SpoolLimits = {
  readonly folder: string;
  readonly maxBytes: number;
  readonly delayMs: number;
  readonly sync: boolean;
  readonly fsync: boolean;
  readonly segmentBytes: number;
  readonly drain: boolean;
};

const MIB = 1024 * 1024;
export const DEFAULT_LIMITS: Limits = {
  memoryBytes: 32 * MIB,
  batchBytes: MIB,
  batchEvents: 2_000,
  lingerMs: 20,
  requestMs: 60_000,
  closeMs: 10_000,
};

/** The defaults under what was given. Throws `config_invalid` naming the option that is no positive number. */
export function limitsOf(given: Partial<{ [K in keyof Limits]: number | undefined }>): Limits {
  return filled('', DEFAULT_LIMITS, given);
}

export function spoolLimitsOf(given: string | SpoolOptions): SpoolLimits {
  const options = typeof given === 'string' ? { folder: given } : given;
  if (typeof options.folder !== 'string' || options.folder === '')
    throw new TapedeckError('config_invalid', 'spool.folder must be the path of a folder');
  const { folder, sync = false, fsync = false, drain = true, ...sizes } = options;
  return { folder, sync, fsync, drain, ...filled('spool.', { maxBytes: 1024 * MIB, delayMs: 50, segmentBytes: 8 * MIB }, sizes) };
}

function filled<T extends Readonly<Record<string, number>>>(
  prefix: string,
  defaults: T,
  given: { readonly [key: string]: number | undefined },
): T {
  const entries = Object.keys(defaults).map((key) => {
    const value = given[key] ?? (defaults[key] as number);
    if (typeof value !== 'number' || !(value > 0)) throw new TapedeckError('config_invalid', `${prefix}${key} must be a positive number`);
    return [key, value];
  });
  return Object.fromEntries(entries) as T;
}
