/**
 * A limit on bytes in flight. `tryTake` never waits: when the budget is full the caller answers "try again" at once.
 * One item larger than the whole budget is let in when nothing else is in flight, so that a legal item can always pass.
 */
export class ByteBudget {
  readonly limit: number;
  #used = 0;

  constructor(limit: number) {
    if (!(limit > 0)) throw new RangeError('limit must be > 0 bytes');
    this.limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** Takes `bytes` and returns the release function (idempotent), or null when the budget is full. */
  tryTake(bytes: number): (() => void) | null {
    if (this.#used > 0 && this.#used + bytes > this.limit) return null;
    this.#used += bytes;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#used -= bytes;
    };
  }
}
