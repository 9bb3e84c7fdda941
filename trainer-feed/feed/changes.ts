/** Counts the changes of a feed that a waiting request may care about, and wakes those that wait for the next one. */
import type { Clock } from '../../base/clock.ts';
import { withLinkedSignal } from '../../base/linked-signal.ts';

export class Changes {
  readonly #clock: Clock;
  #version = 0;
  #next = Promise.withResolvers<void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get version(): number {
    return this.#version;
  }

  /** Tells waiting requests to look again. */
  note(): void {
    this.#version++;
    this.#next.resolve();
    this.#next = Promise.withResolvers<void>();
  }

  /** Waits until something changed since `version`, or `ms` passed. Rejects when the signal aborts. */
  async wait(version: number, ms: number, signal?: AbortSignal): Promise<void> {
    if (this.#version !== version) return;
    const { promise } = this.#next;
    await withLinkedSignal([signal], async (linked) => {
      linked.throwIfAborted();
      const stop = new AbortController();
      const onAbort = (): void => stop.abort(linked.reason);
      linked.addEventListener('abort', onAbort, { once: true });
      try {
        await Promise.race([promise, this.#clock.sleep(ms, stop.signal)]);
      } finally {
        linked.removeEventListener('abort', onAbort);
        stop.abort();
      }
    });
  }
}
