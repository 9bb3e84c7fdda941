import { TapedeckError } from '../../base/errors.ts';
import { ACCEPT_LIMITS, type AcceptLimits } from '../accept-limits.ts';

/** Every limit of the HTTP edge. Times in milliseconds. docs/http.md lists them. */
export type IngestLimits = AcceptLimits & {
  /** Body as sent (`body_too_large`). */
  readonly bodyBytes: number;
  /** Body after gzip or zstd (`inflated_too_large`). */
  readonly inflatedBytes: number;
  /** Bodies in memory, all requests together (`overloaded`). */
  readonly inFlightBytes: number;
  /** Free buffers kept for the next bodies. */
  readonly pooledBytes: number;
  /** Longest pause between two pieces of a body (`slow_body`). */
  readonly bodyIdleMs: number;
  /** Longest time for a whole body (`slow_body`). */
  readonly bodyMs: number;
  /** Answers kept for `Idempotency-Key`, and for how long. */
  readonly idempotencyBytes: number;
  readonly idempotencyMs: number;
};

const MIB = 1024 * 1024;

export const INGEST_LIMITS: IngestLimits = {
  ...ACCEPT_LIMITS,
  bodyBytes: 64 * MIB,
  inflatedBytes: 256 * MIB,
  inFlightBytes: 256 * MIB,
  pooledBytes: 64 * MIB,
  bodyIdleMs: 10_000,
  bodyMs: 30_000,
  idempotencyBytes: 16 * MIB,
  idempotencyMs: 10 * 60_000,
};

/** Refuses numbers that are none (`config_invalid`, naming the limit). */
export function checkLimits(limits: IngestLimits): IngestLimits {
  for (const [name, value] of Object.entries(limits)) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new TapedeckError('config_invalid', `limit ${name} must be a whole number > 0`, { details: { name } });
    }
  }
  return limits;
}
