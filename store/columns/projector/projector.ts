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
import { storedPositions } from '../stored-positions.ts';
import { createBlock, type Block } from '../projections/block.ts';
import { storePartition } from '../projections/position.ts';
import type { StoredEvent } from '../projections/stored-event.ts';
import type { BlockReport, Load } from './after-block.ts';
import { classify, factsOf, runKey, type Candidate, type Decision } from './classify.ts';
import { ENOUGH_EVENTS, fillUpMs, LOADED_EVENTS } from './fill-up.ts';
import { gather, type Gathered } from './gather.ts';
import { nothingKnown, type KnownFacts } from './known-facts.ts';
import { EntityIndex, knownIds, knownTombstones } from './known-state.ts';
import { readBlock, type ReadBlock } from './read-block.ts';
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
    prepare(events: readonly Candidate[]): Promise<void>;
    run(block: BlockReport, signal: AbortSignal): Promise<void>;
    idle(signal: AbortSignal): Promise<boolean>;
  };
  readonly reached?: (point: BlockPoint) => void;
  readonly onState?: (state: ProjectorState) => void;
  /** Runs known to be deleted before the first event is read (rebuild). */
  readonly deletedRuns?: ReadonlySet<string>;
};

/** A block out of the log, decoded, with what the store knew of its events. */
type BlockRead = ReadBlock & {
  readonly known: KnownFacts;
  readonly gathered: Gathered;
  readonly block: Block;
};

const IDLE_WAIT_MS = 30_000;
/** A block is looked at this often while it fills up. */
const MAX_LOOKS = 4;

export class Projector {
  readonly #options: ProjectorOptions;
  readonly #entities = new EntityIndex();
  /** One is inserted while the other is filled. */
  readonly #blocks = [createBlock(), createBlock()] as const;
  readonly #state: StateTracker;
  #deletedRuns = new Set<string>();
  #positions: number[] = [];
  #blockAt = -Infinity;
  #until: readonly number[] | null = null;
  #ahead: Promise<BlockRead> | null = null;
  /** What the last block stored: the next one may have asked the store before. */
  #last: KnownFacts = nothingKnown();

  constructor(options: ProjectorOptions) {
    this.#options = options;
    this.#state = new StateTracker(options.clock, options.log.partitions, options.onState);
  }

  state(): ProjectorState {
    return this.#state.current();
  }

  /**
   * Runs until the signal aborts (resolves), or until every partition has reached its offset in `until`. A block that is being stored when the signal aborts is stored
   * to its end, unless `cut` aborts too: then the store may hold part of a block that its ledger does not know, which the next start repeats. Rejects only on a fault of
   * the program itself. May be run again, further.
   */
  async run(signal: AbortSignal, until: readonly number[] | null = null, cut: AbortSignal = signal): Promise<void> {
    this.#until = until;
    this.#ahead = null;
    this.#last = nothingKnown();
    try {
      await this.#start(signal);
      while (!signal.aborted && !this.#finished()) await this.#cycle(signal, cut);
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
    const positions = await this.#patiently('the stored position', signal, () => storedPositions(store, { signal }));
    const deleted = await this.#patiently('the deleted runs', signal, () => knownTombstones(store, signal));
    this.#deletedRuns = new Set([...deleted, ...(this.#options.deletedRuns ?? [])]);
    const kept = await this.#patiently('the log', signal, () => log.positions(signal));
    const at = (partition: number): number => positions.get(storePartition(this.#options.topic, partition)) ?? 0;
    this.#positions = kept.map(({ first }, partition) => Math.max(first, at(partition)));
    this.#state.moved(this.#positions, kept.map((p) => p.end)); // prettier-ignore
  }

  async #cycle(signal: AbortSignal, cut: AbortSignal): Promise<void> {
    const read = await (this.#ahead ?? this.#nextBlock(signal));
    this.#ahead = null;
    if (read === null) return;
    this.#ahead = this.#readAhead(read, signal);
    await this.#project(read, cut);
  }

  /** Stores one block, and does what follows it. */
  async #project(read: BlockRead, signal: AbortSignal): Promise<void> {
    const { items, candidates, gathered, block } = read;
    const started = this.#options.clock.monotonicMs();
    this.#state.phase('projecting');
    for (const { type, project, run } of candidates) if (type === 'run.deleted') this.#deletedRuns.add(runKey(project, run ?? ''));
    await this.#patiently('the column store', signal, async () => this.#options.after?.prepare(candidates));
    const { judged, facts } = this.#judge(read);
    const filled = read.asStored && judged.every(({ decision }) => decision.status === 'stored');
    const decisions = await this.#store(judged, block, filled, signal);
    gathered.release(); // what goes on from here are texts and numbers
    this.#positions = [...gathered.next];
    const stored: Candidate[] = [];
    for (const [i, { candidate }] of items.entries()) if (candidate !== null && decisions[i]?.status === 'stored') stored.push(candidate);
    this.#entities.learn(stored);
    this.#last = judged.every(({ decision }, i) => decision === decisions[i]) ? facts : factsOf(stored);
    this.#state.stored(this.#positions, gathered, decisions, this.#options.clock.monotonicMs() - started);
    const { after } = this.#options;
    const report = { events: stored, positions: this.#positions, load: this.#load(items.length) };
    await this.#patiently('the column store', signal, async () => after?.run(report, signal));
  }

  #load(events: number): Load {
    if (this.#ahead !== null || events * 2 >= this.#options.blockEvents) return 'full';
    return events >= LOADED_EVENTS ? 'loaded' : 'calm';
  }

  #store(judged: readonly Judged[], block: Block, filled: boolean, signal: AbortSignal): Promise<Decision[]> {
    const needsWork = (error: unknown): boolean => ['halve', 'poison'].includes(storeVerdict(error));
    const context = {
      block,
      store: this.#options.store,
      insert: (work: (signal: AbortSignal) => Promise<void>) => this.#patiently('the column store', signal, () => work(signal), needsWork),
      reached: this.#options.reached ?? (() => {}),
      signal,
    };
    return storeBlock(judged, context, filled);
  }

  /** Under load the next block is read and decoded while this one is inserted, when there is a whole block of it: null says there is not. */
  #readAhead({ gathered, block }: BlockRead, signal: AbortSignal): Promise<BlockRead> | null {
    const until = this.#until ?? [];
    const waiting = gathered.ends.reduce(
      (sum, end, p) => sum + Math.max(0, Math.min(end, until[p] ?? end) - (gathered.next[p] as number)),
      0,
    );
    if (waiting < Math.min(ENOUGH_EVENTS, this.#options.blockEvents)) return null;
    const other = this.#blocks.find((each) => each !== block) as Block;
    const ahead = this.#read(gathered.next, other, signal);
    ahead.catch(() => {}); // it fails where it is awaited
    return ahead;
  }

  async #read(from: readonly number[], block: Block, signal: AbortSignal): Promise<BlockRead> {
    const { log, store, blockBytes, blockEvents, topic, fetchBlob } = this.#options;
    const limits = { maxBytes: blockBytes, maxEvents: blockEvents, until: this.#until };
    this.#blockAt = this.#options.clock.monotonicMs();
    const gathered = await this.#patiently('the log', signal, () => gather(log, from, limits, signal));
    const read = await this.#patiently('the blob store', signal, () => readBlock(gathered, topic, fetchBlob, block));
    const { candidates } = read;
    const ask = <T>(question: () => Promise<T>): Promise<T> => this.#patiently('the column store', signal, question);
    const [ids, entities] = await Promise.all([
      ask(() => knownIds(store, candidates, signal)),
      ask(() => this.#entities.known(store, candidates, signal)),
    ]);
    return { ...read, known: { ids, entities }, gathered, block };
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
    const [block, ahead] = this.#blocks;
    ahead.clear(); // what it needed under load is let go in time
    const read = await this.#read(this.#positions, block, signal);
    const { events, next } = read.gathered;
    return events === 0 && next.every((n, p) => n === this.#positions[p]) ? null : read;
  }

  /** Small blocks cost more than twice as much per event: one that is not full waits (fill-up.ts). */
  async #fillUp(signal: AbortSignal): Promise<void> {
    const { clock, blockWaitMs, blockEvents } = this.#options;
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const waiting = await this.#available(signal);
      const wait = fillUpMs(waiting, clock.monotonicMs() - this.#blockAt, blockWaitMs);
      if (waiting >= blockEvents || wait <= 0) return;
      await clock.sleep(wait, signal);
    }
  }

  async #available(signal: AbortSignal): Promise<number> {
    const bounds = await this.#patiently('the log', signal, () => this.#options.log.positions(signal));
    const until = this.#until ?? [];
    return bounds.reduce((sum, bound, p) => {
      const end = Math.min(bound.end, until[p] ?? Infinity);
      return sum + Math.max(0, end - (this.#positions[p] as number));
    }, 0);
  }

  /** What the store knows was asked while the block before was on its way: what that one stored is added. */
  #judge({ items, candidates, known }: BlockRead): { judged: Judged[]; facts: KnownFacts } {
    const { decisions, stored } = classify(candidates, { facts: [this.#last, known], deletedRuns: this.#deletedRuns });
    let next = 0;
    const judged = items.map((item): Judged => {
      const { problem } = item;
      if (problem === null) return { item, decision: decisions[next++] as Decision };
      return { item, decision: { status: 'dead', code: problem.code, reason: problem.message, firstOffset: null } };
    });
    return { judged, facts: stored };
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
