/** Rollouts that were cancelled lately, for runners that follow. Derived from the log; a follower that comes back gets them again, and stopping twice is harmless. */

export type Cancellation = {
  readonly sequence: number;
  readonly run: string;
  readonly rollout: string;
  readonly reason: string;
  readonly time: number;
};

export type Cancellations = {
  readonly add: (cancelled: Omit<Cancellation, 'sequence'>) => void;
  /** Those after `sequence`, oldest first, as far as they are kept. */
  readonly since: (sequence: number) => readonly Cancellation[];
  readonly last: number;
};

const KEPT = 10_000;

export function newCancellations(): Cancellations {
  let kept: Cancellation[] = [];
  let last = 0;
  return {
    add: (cancelled) => {
      kept.push({ sequence: ++last, ...cancelled });
      if (kept.length > 2 * KEPT) kept = kept.slice(-KEPT);
    },
    since: (sequence) => kept.filter((each) => each.sequence > sequence),
    get last() {
      return last;
    },
  };
}
