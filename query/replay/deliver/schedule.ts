/** When the next event is due, from the times of the producers. Pure. */
export type Schedule = { dueMs(timeMicros: number): number };

/**
 * Milliseconds since the delivery began at which an event of that time is due; `speed` 2 is twice as fast. Time that runs backwards (clocks of several producers) waits
 * for nothing, and no single pause is longer than `maxPauseMs`: a run that slept over night is not slept through.
 */
export function createSchedule({ speed, maxPauseMs }: { readonly speed: number; readonly maxPauseMs: number }): Schedule {
  let last: number | null = null;
  let due = 0;
  return {
    dueMs(timeMicros) {
      if (last !== null && timeMicros > last) due += Math.min((timeMicros - last) / 1000 / speed, maxPauseMs);
      last = Math.max(last ?? timeMicros, timeMicros);
      return due;
    },
  };
}
