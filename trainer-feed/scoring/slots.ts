/** So many at a time, first come first served. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    if (!(count >= 1)) throw new RangeError('there must be a slot');
    this.#free = count;
  }

  /** Waits for a slot and gives the function that frees it (idempotent). Rejects with the signal's reason when it aborts first. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    };
  }

  #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => {
      this.#waiting.splice(this.#waiting.indexOf(mine), 1);
      reject(signal.reason as Error);
    };
    const mine = (): void => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    };
    this.#waiting.push(mine);
    signal.addEventListener('abort', onAbort, { once: true });
    return promise;
  }
}
