/** Reads that several ask for at the same time are made once: a screen that opens a trace wants its window, its skeleton and its tokens in one moment, and each needs the graph. */

type Shared<T> = { readonly value: Promise<T>; readonly stop: AbortController; waiting: number };

export class SharedReads<T> {
  readonly #reads = new Map<string, Shared<T>>();

  /** The read under way for `key`, or a new one by `make`. It goes on while one of those who wait for it is there; a value is never kept. */
  async read(key: string, signal: AbortSignal, make: (signal: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const shared = this.#reads.get(key) ?? this.#begin(key, make);
    shared.waiting++;
    const leave = (): void => {
      if (--shared.waiting > 0) return;
      this.#reads.delete(key);
      shared.stop.abort(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    try {
      const value = await shared.value;
      signal.throwIfAborted();
      return value;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  #begin(key: string, make: (signal: AbortSignal) => Promise<T>): Shared<T> {
    const stop = new AbortController();
    const shared = { value: make(stop.signal), stop, waiting: 0 };
    this.#reads.set(key, shared);
    const end = (): void => {
      if (this.#reads.get(key) === shared) this.#reads.delete(key);
    };
    shared.value.then(end, end);
    return shared;
  }
}
