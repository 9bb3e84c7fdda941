/** Waiting until there is something to read in one of a feed's topics. */
import type { Clock } from '../../base/clock.ts';
import type { EventLog } from '../../store/log/event-log.ts';

type Logs = { readonly events: EventLog; readonly feeds: EventLog; readonly clock: Clock };

/** How far both topics were read; `positions` is null when new events do not matter. */
export type Seen = { readonly positions: readonly number[] | null; readonly partition: number; readonly nextDecision: number };

/** Resolves when something was appended beyond what was seen, when `kick` resolves, after `ms`, or when the signal aborts. Rejects with what makes a topic unreadable. */
export async function awaitAppend(
  { events, feeds, clock }: Logs,
  { positions, partition, nextDecision }: Seen,
  { ms, kick, signal }: { readonly ms: number; readonly kick: Promise<void>; readonly signal: AbortSignal },
): Promise<void> {
  if (signal.aborted) return;
  const stop = new AbortController();
  const onAbort = (): void => stop.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const quiet = (error: unknown): void => {
    if (!stop.signal.aborted) throw error;
  };
  // of the feeds topic only the feed's own partition counts
  const decisions = Array.from({ length: feeds.partitions }, (_, at) => (at === partition ? nextDecision : Number.MAX_SAFE_INTEGER));
  try {
    await Promise.race([
      kick,
      feeds.waitForAppend(decisions, ms, stop.signal).catch(quiet),
      (positions === null ? clock.sleep(ms, stop.signal) : events.waitForAppend(positions, ms, stop.signal)).catch(quiet),
    ]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    stop.abort();
  }
}
