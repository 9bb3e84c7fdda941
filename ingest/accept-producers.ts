/**
 * The state of all producers: loaded once at start, kept in memory, bounded. Requests of one producer run one after another (`exclusive`), and a state moves
 * only when what it stands for is durable.
 */
import type { Clock } from '../base/clock.ts';
import { withDeadline } from '../base/deadline.ts';
import { TapedeckError } from '../base/errors.ts';
import { judgeSequence, producerKey, type Producer, type ProducerState, type SequenceVerdict } from './accept-sequence.ts';

export type Producers = {
  /** Loads the states; until it has succeeded, events with a producer are refused with `store_unavailable`. Errors of the loader are thrown. */
  load(signal?: AbortSignal): Promise<void>;
  readonly loaded: boolean;
  readonly size: number;
  /** Judges on top of `ahead`, states that are not durable yet. States are kept by `producerKey`. */
  judge(producer: Producer, ahead: ReadonlyMap<string, ProducerState>, slack: number): SequenceVerdict;
  commit(key: string, state: ProducerState): void;
  /** Runs `work` when every earlier work that names one of `keys` has ended; throws `deadline_exceeded` when that takes longer than `waitMs`. */
  exclusive<T>(keys: readonly string[], options: { readonly clock: Clock; readonly waitMs: number }, work: () => Promise<T>): Promise<T>;
};

export type ProducersOptions = {
  /** The states as of the END of the log (every appended number must be in it). */
  readonly loadProducers: (signal?: AbortSignal) => Promise<ReadonlyMap<string, ProducerState>>;
  /** States kept; beyond it the least recently used ones are dropped, and from then on a producer that is not known may start with any number. */
  readonly maxProducers?: number;
};

export const MAX_PRODUCERS = 100_000;

export function createProducers({ loadProducers, maxProducers = MAX_PRODUCERS }: ProducersOptions): Producers {
  const states = new Map<string, ProducerState>();
  const tails = new Map<string, Promise<unknown>>();
  let loaded = false;
  let dropped = false;

  const commit = (key: string, state: ProducerState): void => {
    states.delete(key);
    states.set(key, state);
    if (states.size <= maxProducers) return;
    states.delete(states.keys().next().value as string);
    dropped = true;
  };

  return {
    async load(signal) {
      for (const [key, state] of await loadProducers(signal)) commit(key, state);
      loaded = true;
    },
    get loaded() {
      return loaded;
    },
    get size() {
      return states.size;
    },
    judge(producer, ahead, slack) {
      if (!loaded)
        throw new TapedeckError('store_unavailable', 'the states of producers are still being loaded; send the same request again');
      const key = producerKey(producer);
      return judgeSequence(ahead.get(key) ?? states.get(key), producer, { slack, adopt: dropped });
    },
    commit,
    async exclusive(keys, { clock, waitMs }, work) {
      const tailsBefore = keys.map((key) => tails.get(key)).filter((tail) => tail !== undefined);
      const earlier = Promise.all(tailsBefore);
      const { promise, resolve } = Promise.withResolvers<void>();
      for (const key of keys) tails.set(key, promise);
      try {
        if (tailsBefore.length > 0) await withDeadline(clock, waitMs, 'earlier requests of the same producer', () => earlier);
        return await work();
      } finally {
        // whoever comes next waits for the earlier ones too, also when this one gave up
        void earlier.then(() => {
          for (const key of keys) if (tails.get(key) === promise) tails.delete(key);
          resolve();
        });
      }
    },
  };
}
