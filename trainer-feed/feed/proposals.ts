/** Decisions that requests have appended and wait to see read back: by event id, those who are to be told the verdict. Several may send the same decision. */
import type { Verdict } from './apply-decision.ts';

export class Proposals {
  readonly #waiting = new Map<string, Set<(verdict: Verdict) => void>>();

  /** The decision was read back. */
  tell(id: string, verdict: Verdict): void {
    for (const resolve of this.#waiting.get(id) ?? []) resolve(verdict);
    this.#waiting.delete(id);
  }

  /** Runs `work` with the promise of the verdict, and forgets who waits when it is over. */
  async await<T>(id: string, work: (verdict: Promise<Verdict>) => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<Verdict>();
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting.add(resolve));
    try {
      return await work(promise);
    } finally {
      waiting.delete(resolve);
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
    }
  }
}
