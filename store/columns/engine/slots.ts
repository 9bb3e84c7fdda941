import type { Clock } from '../../../base/clock.ts';
import { refusal } from './wire-error.ts';

/** Numbered permits. A running statement holds a thread of the pool, so there are never more than `count` of them; the rest wait in line. */
export type Slots = {
  /** Resolves with a slot's number; rejects with code 202 when the line is full or the wait too long, with the signal's reason when it aborts. */
  acquire(signal: AbortSignal): Promise<number>;
  release(slot: number): void;
  readonly busy: number;
  readonly waiting: number;
};

export function createSlots(count: number, limits: { maxWaiting: number; maxWaitMs: number }, clock: Clock): Slots {
  const free = Array.from({ length: count }, (_, i) => count - 1 - i);
  const line: ((slot: number) => void)[] = [];
  const tooMany = (): Error =>
    refusal(
      202,
      'TOO_MANY_SIMULTANEOUS_QUERIES',
      `Too many simultaneous queries: ${count} run and ${line.length} wait (limit ${limits.maxWaiting})`,
    );
  return {
    get busy() {
      return count - free.length;
    },
    get waiting() {
      return line.length;
    },
    async acquire(signal) {
      signal.throwIfAborted();
      const slot = free.pop();
      if (slot !== undefined) return slot;
      if (line.length >= limits.maxWaiting) throw tooMany();
      const settled = new AbortController();
      let take!: (slot: number) => void;
      const turn = new Promise<number>((resolve) => line.push((take = resolve)));
      const leave = (): void => void line.splice(line.indexOf(take), line.includes(take) ? 1 : 0);
      const tooLong = clock.sleep(limits.maxWaitMs, AbortSignal.any([signal, settled.signal])).then(
        () => Promise.reject(tooMany()),
        () => (signal.aborted ? Promise.reject(signal.reason as Error) : new Promise<never>(() => {})),
      );
      try {
        return await Promise.race([turn, tooLong]);
      } catch (error) {
        // The turn may have come in the same moment: then it is passed on.
        if (line.includes(take)) leave();
        else this.release(await turn);
        throw error;
      } finally {
        settled.abort();
      }
    },
    release(slot) {
      const next = line.shift();
      if (next) next(slot);
      else free.push(slot);
    },
  };
}
