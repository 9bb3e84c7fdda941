/**
 * The projector: folds the log into the column store. One cycle is one block over all partitions: read, decide, project, insert one Native block per table,
 * `log_index` last. The position is the largest offset in `log_index`, so a crash anywhere repeats the block, and every table is idempotent by key.
 * Nothing here is ever skipped: an event is stored, or it has a row in log_index that says why not.
 */
import type { Clock } from '../../../base/clock.ts';
import type { Random } from '../../../base/random.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { retry } from '../../../base/retry.ts';
import type { EventLog } from '../../log/event-log.ts';
import type { ColumnStore } from '../column-store.ts';
import { createBlock } from '../projections/block.ts';
import { storePartition } from '../projections/position.ts';
import type { StoredEvent } from '../projections/stored-event.ts';
import type { BlockReport } from './after-block.ts';
import { classify, entityOf, runKey, type Candidate, type Decision } from './classify.ts';
import { gather, type Gathered } from './gather.ts';
import { EntityIndex, knownIds, knownTombstones, storedPositions } from './known-state.ts';
import { readBlock, type ReadBlock, type Unreadable } from './read-block.ts';
import { StateTracker } from './state-tracker.ts';
import { storeBlock, type BlockPoint, type Judged } from './store-block.ts';
import { storeVerdict } from './store-verdict.ts';
import type { ProjectorState } from './state.ts';

export type ProjectorOptions = {
  readonly log: EventLog;
  readonly topic: StoredEvent['topic'];
  readonly store: ColumnStore;
  readonly fetchBlob: (sha256: string) => Promise<Uint8Array>;
  readonly clock: Clock;
  readonly random: Random;
  /** A block is closed at this size. Memory is about four times this. */
  readonly blockBytes: number;
  readonly blockEvents: number;
  /** How long to wait for a block to fill up before it is stored anyway. */
  readonly blockWaitMs: number;
  /** What goes with a block (after-block.ts): `prepare` before it is stored, `run` after, `idle` when the log is read to its end. */
  readonly after?: {
    prepare(events: readonly StoredEvent[], signal: AbortSignal): Promise<void>;
    run(block: BlockReport, signal: AbortSignal): Promise<void>;
    idle(signal: AbortSignal): Promise<boolean>;
  };
  readonly reached?: (point: BlockPoint) => void;
  readonly onState?: (state: ProjectorState) => void;
  /** Runs known to be deleted before the first event is read (rebuild). */
  readonly deletedRuns?: ReadonlySet<string>;
};

/** A block out of the log, decoded. */
type BlockRead = ReadBlock & { readonly gathered: Gathered };

const IDLE_WAIT_MS = 30_000;

export class Projector {
  readonly #options: ProjectorOptions;
  readonly #entities = new EntityIndex();
  readonly #block = createBlock();
  readonly #state: StateTracker;
  #deletedRuns = new Set<string>();
  #positions: number[] = [];
  #blockAt = -Infinity;
  #until: readonly number[] | null = null;
  #ahead: Promise<BlockRead> | null = null;

  constructor(options: ProjectorOptions) {
    this.#options = options;
    this.#state = new StateTracker(options.clock, options.log.partitions, options.onState);
  }

  state(): ProjectorState {
    return this.#state.current();
  }

  /**
   * Runs until the signal aborts (resolves), or until every partition has reached its offset in `until`. Rejects only on a fault of the program
   * itself. May be run again, further.
   */
  async run(signal: AbortSignal, until: readonly number[] | null = null): Promise<void> {
    this.#until = until;
    this.#ahead = null;
    try {
      await this.#start(signal);
      while (!signal.aborted && !this.#finished()) await this.#cycle(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#state.phase('stopped');
    }
  }

  #finished(): boolean {
    return this.#until?.every((end, partition) => (this.#positions[partition] as number) >= end) === true;
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { store, log } = this.#options;
    const positions = await this.#patiently('the stored position', signal, () => storedPositions(store, signal));
    const deleted = await this.#patiently('the deleted runs', signal, () => knownTombstones(store, signal));
    this.#deletedRuns = new Set([...deleted, ...(this.#options.deletedRuns ?? [])]);
    const kept = await this.#patiently('the log', signal, () => log.positions(signal));
    const at = (partition: number): number => positions.get(storePartition(this.#options.topic, partition)) ?? 0;
    this.#positions = kept.map(({ first }, partition) => Math.max(first, at(partition)));
    this.#state.moved(this.#positions, kept.map((p) => p.end)); // prettier-ignore
  }

  async #cycle(signal: AbortSignal): Promise<void> {
    const block = await (this.#ahead ?? this.#nextBlock(signal));
    this.#ahead = null;
    if (block === null) return;
    const { events, unreadable, gathered } = block;
    const started = this.#options.clock.monotonicMs();
    this.#state.phase('projecting');
    for (const { event } of events) if (event.type === 'run.deleted') this.#deletedRuns.add(runKey(event.project, event.run ?? ''));
    await this.#patiently('the column store', signal, async () => this.#options.after?.prepare(events, signal));
    const judged = await this.#judge(events, unreadable, signal);
    this.#ahead = this.#readAhead(gathered, signal);
    const decisions = await this.#store(judged, signal);
    this.#positions = [...gathered.next];
    this.#entities.learn(
      judged.filter((_, i) => decisions[i]?.status === 'stored').flatMap((j) => (j.candidate === null ? [] : [j.candidate])),
    );
    this.#state.stored(this.#positions, gathered, decisions, this.#options.clock.monotonicMs() - started);
    await this.#after(judged, decisions, gathered, signal);
  }

  #store(judged: readonly Judged[], signal: AbortSignal): Promise<Decision[]> {
    const needsWork = (error: unknown): boolean => ['halve', 'poison'].includes(storeVerdict(error));
    return storeBlock(judged, {
      block: this.#block,
      store: this.#options.store,
      insert: (work) => this.#patiently('the column store', signal, () => work(signal), needsWork),
      reached: this.#options.reached ?? (() => {}),
      signal,
    });
  }

  /** Under load the next block is read and decoded while this one is inserted, when there is a whole block of it: null says there is not. */
  #readAhead(gathered: Gathered, signal: AbortSignal): Promise<BlockRead> | null {
    const waiting = gathered.ends.reduce(
      (sum, end, p) => sum + Math.max(0, Math.min(end, this.#until?.[p] ?? end) - (gathered.next[p] as number)),
      0,
    );
    if (waiting < this.#options.blockEvents) return null;
    const ahead = this.#read(gathered.next, signal);
    ahead.catch(() => {}); // it fails where it is awaited
    return ahead;
  }

  async #read(from: readonly number[], signal: AbortSignal): Promise<BlockRead> {
    const { log, blockBytes, blockEvents, topic, fetchBlob } = this.#options;
    const limits = { maxBytes: blockBytes, maxEvents: blockEvents, until: this.#until };
    this.#blockAt = this.#options.clock.monotonicMs();
    const gathered = await this.#patiently('the log', signal, () => gather(log, from, limits, signal));
    return { gathered, ...(await this.#patiently('the blob store', signal, () => readBlock(gathered, topic, fetchBlob))) };
  }

  /** Waits for something to project, then for the block to fill up or its time to pass. Null when nothing came. */
  async #nextBlock(signal: AbortSignal): Promise<BlockRead | null> {
    const { log } = this.#options;
    if ((await this.#available(signal)) === 0) {
      this.#state.caughtUp();
      const more = (await this.#patiently('the column store', signal, async () => this.#options.after?.idle(signal))) === true;
      if (!more) this.#state.phase('idle');
      const wait = more ? 0 : IDLE_WAIT_MS;
      if (!(await this.#patiently('the log', signal, () => log.waitForAppend(this.#positions, wait, signal)))) return null;
    }
    await this.#fillUp(signal);
    const block = await this.#read(this.#positions, signal);
    const { records, next } = block.gathered;
    return records.length === 0 && next.every((n, p) => n === this.#positions[p]) ? null : block;
  }

  /** Small blocks cost more than twice as much per event: one that is not full waits until `blockWaitMs` after the last. */
  async #fillUp(signal: AbortSignal): Promise<void> {
    const { clock, blockWaitMs, blockEvents } = this.#options;
    const wait = this.#blockAt + blockWaitMs - clock.monotonicMs();
    const now = await this.#available(signal);
    if (now < blockEvents && wait > 0) await clock.sleep(wait, signal);
  }

  async #available(signal: AbortSignal): Promise<number> {
    const bounds = await this.#patiently('the log', signal, () => this.#options.log.positions(signal));
    const until = this.#until ?? [];
    return bounds.reduce((sum, bound, p) => {
      const end = Math.min(bound.end, until[p] ?? Infinity);
      return sum + Math.max(0, end - (this.#positions[p] as number));
    }, 0);
  }

  async #judge(events: readonly StoredEvent[], unreadable: readonly Unreadable[], signal: AbortSignal): Promise<Judged[]> {
    const { store } = this.#options;
    const candidates: Candidate[] = events.map((e) => ({
      event: e.event,
      partition: storePartition(e.topic, e.partition),
      offset: e.offset,
      eventHash: hex(e.hash.event),
      dataHash: hex(e.hash.data),
      entity: entityOf(e.event),
    }));
    const ids = await this.#patiently('the column store', signal, () => knownIds(store, candidates, signal));
    const entities = await this.#patiently('the column store', signal, () => this.#entities.known(store, candidates, signal));
    const decisions = classify(candidates, { ids, entities, deletedRuns: this.#deletedRuns });
    const judged: Judged[] = events.map((stored, i) => ({
      stored,
      unreadable: null,
      candidate: candidates[i] as Candidate,
      decision: decisions[i] as Decision,
    }));
    for (const dead of unreadable) {
      const { code, message } = dead.problem;
      judged.push({
        stored: null,
        unreadable: dead,
        candidate: null,
        decision: { status: 'dead', code, reason: message, firstOffset: null },
      });
    }
    return judged.toSorted((a, b) => partitionOf(a) - partitionOf(b) || offsetOf(a) - offsetOf(b));
  }

  async #after(judged: readonly Judged[], decisions: readonly Decision[], gathered: Gathered, signal: AbortSignal): Promise<void> {
    const { after } = this.#options;
    if (after === undefined) return;
    const events = judged.flatMap((j, i) => (j.stored !== null && decisions[i]?.status === 'stored' ? [j.stored] : []));
    await this.#patiently('the column store', signal, () =>
      after.run({ events, positions: this.#positions, busy: gathered.records.length * 2 >= this.#options.blockEvents }, signal),
    );
  }

  /** Tries until it works or the signal aborts, telling the state what it waits for. `giveUp` errors are thrown at once. */
  async #patiently<T>(
    waitingFor: string,
    signal: AbortSignal,
    work: () => Promise<T>,
    giveUp: (error: unknown) => boolean = () => false,
  ): Promise<T> {
    const { clock, random } = this.#options;
    const result = await retry(work, {
      clock,
      random,
      signal,
      backoff: { firstMs: 100, maxMs: 5_000 },
      // an error that is not ours is a fault of the program: the process ends, loudly, and is started again
      classify: (error) => (signal.aborted || giveUp(error) || !isTapedeckError(error) ? 'permanent' : 'retry'),
      onRetry: (error) => this.#state.waiting(waitingFor, error),
    });
    this.#state.proceed();
    return result;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

function partitionOf(judged: Judged): number {
  return (judged.stored ?? judged.unreadable)?.partition ?? 0;
}

function offsetOf(judged: Judged): number {
  return (judged.stored ?? judged.unreadable)?.offset ?? 0;
}
