/** The newest events, in memory, by their number: `start` to `end`. Older ones are on disk or settled. */
export type MemoryWindow = {
  readonly start: number;
  readonly end: number;
  readonly bytes: number;
  push(event: Uint8Array): void;
  /** The event of a number between `start` and `end`. */
  at(seq: number): Uint8Array;
  /** Lets go of events below `seq`. */
  dropBefore(seq: number): void;
};

/** Dropped places are kept up to this many, so that dropping does not move the rest every time. */
const SLACK = 1024;

export function memoryWindow(): MemoryWindow {
  let events: (Uint8Array | null)[] = [];
  /** Number of events[0]. */
  let base = 0;
  let start = 0;
  let bytes = 0;
  return {
    get start() {
      return start;
    },
    get end() {
      return base + events.length;
    },
    get bytes() {
      return bytes;
    },
    push: (event) => {
      events.push(event);
      bytes += event.length;
    },
    at: (seq) => events[seq - base] as Uint8Array,
    dropBefore: (seq) => {
      const until = Math.min(seq, base + events.length);
      for (; start < until; start++) {
        bytes -= (events[start - base] as Uint8Array).length;
        events[start - base] = null;
      }
      if (start - base < SLACK && start < base + events.length) return;
      events = events.slice(start - base);
      base = start;
    },
  };
}
