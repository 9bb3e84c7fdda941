/** What lets a driver bound its work in time and close cleanly: after `close` work is refused, and `close` waits for what was let in. */
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { TapedeckError, isTapedeckError } from '../../base/errors.ts';

/** Says why the work is not done yet: "503 SlowDown". */
export type Note = (obstacle: string) => void;

export interface OpenGate {
  /**
   * Runs `work`, which is to do `doing` ("store a blob"). Errors of the gate itself: `closed`, `aborted`, and `store_unavailable` when the deadline passes, with what
   * `work` last noted as the reason; the work's signal has then aborted.
   */
  run<T>(doing: string, signal: AbortSignal | undefined, work: (signal: AbortSignal, note: Note) => Promise<T>): Promise<T>;
  /** Resolves when everything that was let in has settled. Idempotent. */
  close(): Promise<void>;
}

/** `what` names the thing behind the gate in messages: "the blob directory". */
export function openGate(what: string, clock: Clock, deadlineMs: number): OpenGate {
  const running = new Set<Promise<unknown>>();
  let closed = false;

  async function within<T>(
    doing: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal, note: Note) => Promise<T>,
  ): Promise<T> {
    let obstacle = '';
    const note: Note = (text) => {
      obstacle = text;
    };
    try {
      return await withDeadline(clock, deadlineMs, `${what} to ${doing}`, (inner) => work(inner, note), signal);
    } catch (error) {
      if (!isTapedeckError(error, 'deadline_exceeded')) throw error;
      const message = obstacle === '' ? error.message : `${error.message} (last: ${obstacle})`;
      throw new TapedeckError('store_unavailable', message, { cause: error, details: { ...error.details, obstacle } });
    }
  }

  return {
    async run(doing, signal, work) {
      if (closed) throw new TapedeckError('closed', `${what} is closed`);
      if (signal?.aborted) throw new TapedeckError('aborted', `aborted before ${what} was to ${doing}`, { cause: signal.reason });
      const job = within(doing, signal, work);
      running.add(job);
      try {
        return await job;
      } finally {
        running.delete(job);
      }
    },
    async close() {
      closed = true;
      await Promise.allSettled(running);
    },
  };
}
