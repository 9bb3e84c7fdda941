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
  /**
   * Resolves when everything that was let in has settled, also work whose caller was told of an abort or a deadline. Idempotent. Rejects with `deadline_exceeded` after
   * 30 seconds.
   */
  close(): Promise<void>;
}

const CLOSE_MS = 30_000;

/** `what` names the thing behind the gate in messages: "the blob directory". */
export function openGate(what: string, clock: Clock, deadlineMs: number): OpenGate {
  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;

  function tracked<T>(job: Promise<T>): Promise<T> {
    const settled: Promise<unknown> = job.then(
      () => running.delete(settled),
      () => running.delete(settled),
    );
    running.add(settled);
    return job;
  }

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
      return await withDeadline(clock, deadlineMs, `${what} to ${doing}`, (inner) => tracked(work(inner, note)), signal);
    } catch (error) {
      if (!isTapedeckError(error, 'deadline_exceeded')) throw error;
      const message = obstacle === '' ? error.message : `${error.message} (last: ${obstacle})`;
      throw new TapedeckError('store_unavailable', message, { cause: error, details: { ...error.details, obstacle } });
    }
  }

  return {
    async run(doing, signal, work) {
      if (closing !== null) throw new TapedeckError('closed', `${what} is closed`);
      if (signal?.aborted) throw new TapedeckError('aborted', `aborted before ${what} was to ${doing}`, { cause: signal.reason });
      return within(doing, signal, work);
    },
    close() {
      closing ??= withDeadline(clock, CLOSE_MS, `${what} to finish`, async () => {
        await Promise.all(running);
      });
      return closing;
    },
  };
}
