/** Wakes whoever waits. A ring with nobody waiting is remembered once, so that none is missed. */
import type { Clock } from '../../base/clock.ts';

export type Bell = {
  ring(): void;
  /** Resolves at the next ring, or after `ms`. */
  wait(ms?: number): Promise<void>;
};

/** A reason made once: an abort without one makes an error with a stack. */
const RUNG = new Error('rung');

export function bell(clock: Clock): Bell {
  let rung = false;
  let wake: (() => void) | null = null;
  return {
    ring: () => {
      if (wake === null) rung = true;
      else wake();
    },
    wait: async (ms) => {
      if (rung) {
        rung = false;
        return;
      }
      const stop = new AbortController();
      const ringing = new Promise<void>((resolve) => {
        wake = resolve;
      });
      try {
        await (ms === undefined ? ringing : Promise.race([ringing, clock.sleep(ms, stop.signal).catch(() => {})]));
      } finally {
        wake = null;
        stop.abort(RUNG);
      }
    },
  };
}
