import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';

/** An answer as it goes over the wire. */
export type Answer = { readonly status: number; readonly body: string; readonly headers: Readonly<Record<string, string>> };

/**
 * Remembers answers by `Idempotency-Key`, in memory, bounded by bytes and time. The same key with the same body joins the request in flight or gets the stored answer;
 * with another body it is `idempotency_mismatch`. Answers that ask for a retry are not kept. Nothing survives a restart; event ids make re-sending safe anyway.
 */
export type IdempotencyWindow = {
  /** `replayed` says that `work` was not run for this call. */
  run(key: string, body: Uint8Array, work: () => Promise<Answer>): Promise<{ answer: Answer; replayed: boolean }>;
  readonly bytes: number;
};

export const MAX_KEY_LENGTH = 255;
const ENTRY_BYTES = 256;

type Entry = { readonly digest: string; readonly answer: Promise<Answer>; bytes: number; until: number };

export function createIdempotencyWindow(options: {
  readonly maxBytes: number;
  readonly keepMs: number;
  readonly clock: Clock;
}): IdempotencyWindow {
  const { maxBytes, keepMs, clock } = options;
  /** In order of `until`: entries in flight are `Infinity` and are moved to the end when answered. */
  const entries = new Map<string, Entry>();
  let bytes = 0;

  const forget = (key: string, entry: Entry): void => {
    if (entries.get(key) !== entry) return;
    entries.delete(key);
    bytes -= entry.bytes;
  };
  const trim = (): void => {
    const now = clock.monotonicMs();
    for (const [key, entry] of entries) {
      if (entry.until === Infinity) continue;
      if (entry.until > now && bytes <= maxBytes) return;
      forget(key, entry);
    }
  };
  const keep = (key: string, entry: Entry, answer: Answer): void => {
    forget(key, entry);
    if (isTemporary(answer)) return;
    entry.bytes = ENTRY_BYTES + 2 * (key.length + answer.body.length);
    entry.until = clock.monotonicMs() + keepMs;
    bytes += entry.bytes;
    entries.set(key, entry);
    trim();
  };

  return {
    async run(key, body, work) {
      trim();
      const digest = createHash('sha256').update(body).digest('base64');
      const known = entries.get(key);
      if (known !== undefined) {
        if (known.digest !== digest) {
          throw new TapedeckError('idempotency_mismatch', 'this Idempotency-Key was used with another body; use a new key for a new body', {
            details: { header: 'idempotency-key' },
          });
        }
        return { answer: await known.answer, replayed: true };
      }
      const entry: Entry = { digest, answer: work(), bytes: 0, until: Infinity };
      entries.set(key, entry);
      try {
        const answer = await entry.answer;
        keep(key, entry, answer);
        return { answer, replayed: false };
      } catch (error) {
        forget(key, entry);
        throw error;
      }
    },
    get bytes() {
      return bytes;
    },
  };
}

function isTemporary({ status }: Answer): boolean {
  return status >= 500 || status === 429 || status === 408;
}
