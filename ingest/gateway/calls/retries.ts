/**
 * Recognises a request that repeats an earlier one, so that a retry never becomes a sample: by its `Idempotency-Key`, or by its body together with the header with
 * which client libraries count their retries. In memory, bounded by bytes and time; a request without either is a new sample, however equal.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../../base/clock.ts';
import { fail, ok, type Result } from '../../../base/result.ts';
import type { Settled } from './relay.ts';

export type Repeat =
  /** Nothing to wait for. `retryOf`: the call that this one repeats and that failed. */
  | { readonly kind: 'new'; readonly isRetry: boolean; readonly retryOf: number | null }
  /** Another call answers this request, now or already. */
  | { readonly kind: 'same'; readonly index: number; readonly settled: Promise<Settled> };

export type RetryWindow = {
  /** Problems: `idempotency_mismatch`, `bad_request` (a key of a wrong length). */
  look(trace: string, headers: IncomingHttpHeaders, digest: string): Result<Repeat>;
  /** Remembers a call that begins; the function is told how it ended. */
  begin(trace: string, headers: IncomingHttpHeaders, digest: string, index: number): (settled: Settled) => void;
  readonly bytes: number;
};

type Entry = { readonly keys: readonly string[]; readonly digest: string; readonly index: number; readonly settled: Promise<Settled>; state: 'open' | 'good' | 'bad'; bytes: number; until: number }; // prettier-ignore

const ENTRY_BYTES = 512;
const MAX_KEY_LENGTH = 255;

export function createRetryWindow({
  clock,
  maxBytes,
  keepMs,
}: {
  readonly clock: Clock;
  readonly maxBytes: number;
  readonly keepMs: number;
}): RetryWindow {
  const byKey = new Map<string, Entry>();
  /** In order of settling: oldest first. */
  const settledEntries = new Set<Entry>();
  let bytes = 0;

  const forget = (entry: Entry): void => {
    settledEntries.delete(entry);
    bytes -= entry.bytes;
    for (const key of entry.keys) if (byKey.get(key) === entry) byKey.delete(key);
  };
  const trim = (): void => {
    const now = clock.monotonicMs();
    for (const entry of settledEntries) {
      if (entry.until > now && bytes <= maxBytes) return;
      forget(entry);
    }
  };

  return {
    look(trace, headers, digest) {
      trim();
      const key = headers['idempotency-key'];
      if (key !== undefined && (typeof key !== 'string' || key.length === 0 || key.length > MAX_KEY_LENGTH)) {
        return fail('bad_request', `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters`);
      }
      const isRetry = Number(headers['x-stainless-retry-count'] ?? 0) > 0;
      const keyed = key === undefined ? undefined : byKey.get(keyName(trace, key));
      if (keyed !== undefined && keyed.digest !== digest) {
        return fail('idempotency_mismatch', 'this Idempotency-Key was used with another body; use a new key for a new body');
      }
      const entry = keyed ?? (isRetry ? byKey.get(digestName(trace, digest)) : undefined);
      if (entry === undefined) return ok({ kind: 'new', isRetry, retryOf: null });
      if (entry.state === 'bad') return ok({ kind: 'new', isRetry: true, retryOf: entry.index });
      return ok({ kind: 'same', index: entry.index, settled: entry.settled });
    },
    begin(trace, headers, digest, index) {
      const { promise, resolve } = Promise.withResolvers<Settled>();
      const key = headers['idempotency-key'];
      const keys = [digestName(trace, digest), ...(typeof key === 'string' ? [keyName(trace, key)] : [])];
      const entry: Entry = { keys, digest, index, settled: promise, state: 'open', bytes: 0, until: 0 };
      for (const name of keys) byKey.set(name, entry);
      return (settled) => {
        if (entry.state !== 'open') return;
        entry.state = settled.isReplayable ? 'good' : 'bad';
        entry.bytes = ENTRY_BYTES + (settled.isReplayable ? sizeOf(settled) : 0);
        entry.until = clock.monotonicMs() + keepMs;
        bytes += entry.bytes;
        settledEntries.add(entry);
        resolve(settled);
        trim();
      };
    },
    get bytes() {
      return bytes;
    },
  };
}

function keyName(trace: string, key: string): string {
  return `${trace}\0k${key}`;
}

function digestName(trace: string, digest: string): string {
  return `${trace}\0d${digest}`;
}

/** Texts in memory take about two bytes a character. */
function sizeOf({ body, answer }: Settled): number {
  let size = body?.length ?? 0;
  for (const choice of answer?.choices ?? [])
    size += 2 * JSON.stringify(choice.message, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).length;
  return size;
}
