/** How long a block may fill up before it is stored. Pure. */

/** From here on the engine's fixed work for a block is shared by so many events that waiting for more saves little; fewer are not worth a block of their own under load. */
export const ENOUGH_EVENTS = 4_000;
/** A block of as many says that events come faster than `LOADED_PER_SECOND`. */
export const LOADED_EVENTS = 1_000;
/** Below this rate a block would stay small however long it waits. */
const LOADED_PER_SECOND = 1_500;
/** Under load a block may wait this many times as long: 2,500 events a second in blocks of 750 cost the engine twice as much as in blocks of 2,250. */
const LOADED_WAITS = 3;

/**
 * Milliseconds that the next block goes on waiting, when `waiting` events have gathered since the last one was begun `elapsedMs` ago. `blockWaitMs` for few; up to three
 * times that under a load that makes it worth while, and no longer than it takes to have enough.
 */
export function fillUpMs(waiting: number, elapsedMs: number, blockWaitMs: number): number {
  if (elapsedMs < blockWaitMs) return blockWaitMs - elapsedMs;
  const perMs = waiting / elapsedMs;
  if (elapsedMs === 0 || perMs * 1000 < LOADED_PER_SECOND) return 0;
  return Math.max(0, Math.min(LOADED_WAITS * blockWaitMs - elapsedMs, (ENOUGH_EVENTS - waiting) / perMs));
}
