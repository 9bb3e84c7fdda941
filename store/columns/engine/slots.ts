import type { Clock } from '../../../base/clock.ts';
import { withDeadline } from '../../../base/deadline.ts';
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
      const { promise: turn, resolve: take } = Promise.withResolvers<number>();
      line.push(take);
      try {
        return await withDeadline(clock, limits.maxWaitMs, 'a free slot', () => turn, signal);
      } catch {
        const refused = signal.aborted ? (signal.reason as Error) : tooMany();
        // The turn may have come in the same moment: then it is passed on.
        if (line.includes(take)) line.splice(line.indexOf(take), 1);
        else this.release(await turn);
        throw refused;
      }
    },
    release(slot) {
      const next = line.shift();
      if (next) next(slot);
      else free.push(slot);
    },
  };
}
