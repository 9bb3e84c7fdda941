/**
 * The rollouts this gateway serves: in memory while they are used, and folded from the log when they are not (after a restart, or after they were idle). One
 * pass over a partition serves every rollout that begins in it. Memory is bounded: the rollouts that were idle longest are let go.
 *
 * A rollout has one gateway at a time: two that write the same trace would give the same node index twice, which `audit` shows as conflicts.
 */
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { foldPartition, rolloutKey, type FoldPorts } from './fold.ts';
import { rolloutBytes, type Place, type RolloutState } from './state.ts';

/** Whoever gets a rollout holds it, so that nobody else gets a second state of it, and must `release` it. */
export type Rollouts = {
  /** In memory, or folded from `place` on. Null when the log has no such rollout of the gateway's. */
  open(place: Place): Promise<RolloutState | null>;
  /** A rollout of which only the partition is known, and an offset that it does not start before. Reads the log only where that is not certain from memory. */
  find(place: Place): Promise<RolloutState | null>;
  /** Only what is in memory, or where it was. */
  get(project: string, rollout: string): RolloutState | Place | null;
  /** A rollout whose start is durable now. */
  add(rollout: RolloutState): RolloutState;
  release(rollout: RolloutState): void;
  readonly bytes: number;
  readonly size: number;
  close(): void;
};

export type RolloutsOptions = FoldPorts & {
  readonly clock: Clock;
  /** Memory for states, estimated. A rollout that is held is never let go. */
  readonly maxBytes: number;
  /** Ends of the partitions when the process began: what starts behind them was started here. */
  readonly startedAt: readonly number[];
};

/** Places of rollouts that are not in memory, so that an old session is not taken for a new one. Beyond it the log is read again. */
const MAX_PLACES = 500_000;
/** Rollouts asked for within this time share a pass. */
const GATHER_MS = 2;

type Found = ReadonlyMap<string, RolloutState>;
type Pass = { from: number; readonly found: Promise<Found> };

export function createRollouts(options: RolloutsOptions): Rollouts {
  const memory = createMemory(options);
  const passes = createPasses(options, memory);

  const folded = async (place: Place, from: number): Promise<RolloutState | null> => {
    const key = rolloutKey(place.project, place.rollout);
    const found = await passes.from(place.partition, from);
    const state = memory.states.get(key) ?? found.get(key) ?? null;
    return state === null ? null : memory.hold(state);
  };

  return {
    async open(place) {
      const key = rolloutKey(place.project, place.rollout);
      const known = memory.states.get(key);
      return known === undefined ? folded(place, memory.places.get(key)?.offset ?? place.offset) : memory.hold(known);
    },
    async find(place) {
      const key = rolloutKey(place.project, place.rollout);
      const known = memory.states.get(key);
      if (known !== undefined) return memory.hold(known);
      const at = memory.places.get(key);
      if (at !== undefined) return folded(place, at.offset);
      return (memory.knownFrom[place.partition] as number) <= place.offset ? null : folded(place, place.offset);
    },
    get(project, rollout) {
      const key = rolloutKey(project, rollout);
      const known = memory.states.get(key);
      return known === undefined ? (memory.places.get(key) ?? null) : memory.hold(known);
    },
    add: (rollout) => memory.hold(rollout),
    release: (rollout) => memory.release(rollout),
    get bytes() {
      return memory.bytes();
    },
    get size() {
      return memory.states.size;
    },
    close: () => passes.close(),
  };
}

function hasPending(rollout: RolloutState): boolean {
  for (const trace of rollout.traces.values()) if (trace.pending !== null) return true;
  return false;
}

type Memory = ReturnType<typeof createMemory>;

function createMemory({ maxBytes, startedAt }: RolloutsOptions) {
  /** Least recently used first. */
  const states = new Map<string, RolloutState>();
  const sizes = new Map<string, number>();
  const places = new Map<string, Place>();
  /** Every rollout of the gateway's that begins at or behind it is in `states` or in `places`. */
  const knownFrom = [...startedAt];
  let bytes = 0;

  const forget = (key: string, state: RolloutState): void => {
    states.delete(key);
    bytes -= sizes.get(key) ?? 0;
    sizes.delete(key);
    places.set(key, state.place);
    if (places.size <= MAX_PLACES) return;
    const [oldest, place] = places.entries().next().value as [string, Place];
    places.delete(oldest);
    knownFrom[place.partition] = Math.max(knownFrom[place.partition] as number, place.offset + 1);
  };
  const trim = (): void => {
    for (const [key, state] of states) {
      if (bytes <= maxBytes) return;
      if (state.held === 0 && !hasPending(state)) forget(key, state);
    }
  };
  const touch = (state: RolloutState): void => {
    const key = rolloutKey(state.scope.project, state.scope.rollout);
    states.delete(key);
    states.set(key, state);
    const size = rolloutBytes(state);
    bytes += size - (sizes.get(key) ?? 0);
    sizes.set(key, size);
    places.delete(key);
  };

  return {
    states,
    places,
    knownFrom,
    bytes: () => bytes,
    keep: (state: RolloutState): void => {
      touch(state);
      trim();
    },
    hold: (state: RolloutState): RolloutState => {
      state.held++;
      touch(state);
      trim();
      return state;
    },
    release: (state: RolloutState): void => {
      state.held--;
      touch(state);
      trim();
    },
  };
}

/** At most one pass reads a partition; whoever comes meanwhile shares the next one. */
function createPasses(options: RolloutsOptions, memory: Memory) {
  const stop = new AbortController();
  const running = new Map<number, Promise<unknown>>();
  const next = new Map<number, Pass>();

  const run = async (partition: number, from: number): Promise<Found> => {
    const { rollouts } = await foldPartition(partition, from, (key) => !memory.states.has(key), options, stop.signal);
    for (const [key, state] of rollouts) if (!memory.states.has(key)) memory.keep(state);
    memory.knownFrom[partition] = Math.min(memory.knownFrom[partition] as number, from);
    return rollouts;
  };

  return {
    from(partition: number, from: number): Promise<Found> {
      const planned = next.get(partition);
      if (planned !== undefined) {
        planned.from = Math.min(planned.from, from);
        return planned.found;
      }
      const before = running.get(partition) ?? Promise.resolve();
      const start = async (): Promise<Found> => {
        await before.catch(() => {});
        await options.clock.sleep(GATHER_MS, stop.signal);
        next.delete(partition);
        running.set(partition, pass.found);
        return run(partition, pass.from);
      };
      const pass: Pass = { from, found: Promise.resolve().then(start) };
      next.set(partition, pass);
      pass.found.catch(() => next.get(partition) === pass && next.delete(partition));
      return pass.found;
    },
    close: () => stop.abort(new TapedeckError('closed', 'the gateway is closing')),
  };
}
