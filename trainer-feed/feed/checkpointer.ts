/** When a feed's state is written down: now and then, behind its passes, and only when it changed. */
import type { Clock } from '../../base/clock.ts';
import { Behind } from './behind.ts';
import type { FeedFiles } from './open-feed.ts';

export type CheckpointerOptions = {
  readonly clock: Clock;
  /** At most this often, milliseconds. */
  readonly everyMs: number;
  /** Told after each. */
  readonly written: () => void;
};

/** So many times as long as a checkpoint took there is none: a large state costs a bounded share of the time. */
const REST = 10;

export class Checkpointer {
  readonly #options: CheckpointerOptions;
  readonly #behind = new Behind();
  #due = 0;
  /** Positions of the last one. */
  #of = '';

  constructor(options: CheckpointerOptions) {
    this.#options = options;
  }

  /** Begins one when it is time, of the state as it is now. Throws what went wrong with the last one. */
  begin(files: FeedFiles): void {
    const isDue = this.#options.clock.monotonicMs() >= this.#due;
    if (isDue && !this.#behind.isBusy && positionsOf(files) !== this.#of) this.#behind.begin(() => this.#write(files));
  }

  /** Resolves when none is being written. Throws what went wrong with the last one. */
  settled(): Promise<void> {
    return this.#behind.settled();
  }

  /** One of now, unless the last one says the same. Durable when it resolves. */
  async write(files: FeedFiles): Promise<void> {
    await this.settled();
    if (positionsOf(files) !== this.#of) await this.#write(files);
  }

  async #write(files: FeedFiles): Promise<void> {
    const { clock, everyMs, written } = this.#options;
    const of = positionsOf(files);
    const began = clock.monotonicMs();
    await files.checkpoint();
    const ended = clock.monotonicMs();
    this.#due = ended + Math.max(everyMs, (ended - began) * REST);
    this.#of = of;
    written();
  }
}

function positionsOf({ fold }: FeedFiles): string {
  return [fold.nextDecision, ...fold.facts.positions].join();
}
