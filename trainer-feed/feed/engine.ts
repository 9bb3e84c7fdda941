/**
 * Runs one feed: reads both topics, folds, decides, appends what it decided and goes on only when that was read back. Everything it holds is derived from the log; a
 * checkpoint makes a restart quick. It may be killed at any instant, and several may run over one log: what counts is what the log says first.
 */
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import type { BlobHandle } from '../../events/fields.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog, LogRecord } from '../../store/log/event-log.ts';
import type { Row } from '../cut/row.ts';
import { groupKey } from '../groups/keys.ts';
import type { RolloutFacts } from '../groups/rollout-facts.ts';
import type { ScoringUpstreams } from '../scoring/upstream.ts';
import type { Verdict } from './apply-decision.ts';
import { awaitAppend } from './await-append.ts';
import type { BatchName } from './batch-rows.ts';
import { Behind } from './behind.ts';
import { Changes } from './changes.ts';
import { newCancellations, type Cancellations } from './cancellations.ts';
import { Checkpointer } from './checkpointer.ts';
import { cutAgain, cutBatch } from './cut-batch.ts';
import { batchesInUse, lastCut } from './decision-state.ts';
import { draftId, recordOf, type Draft } from './draft.ts';
import type { FeedFold } from './fold.ts';
import { failDraft, groupDecisions, newGroupNotes, nextDeadline, type GroupNotes } from './group-decisions.ts';
import { nextCut, noteYields, type CutterContext, type CutWait, type Yields } from './next-cut.ts';
import type { GivenGroup } from './other-feed.ts';
import { FeedScoring } from './feed-scoring.ts';
import { openFeedFiles, type FeedFiles, type FeedOrigin } from './open-feed.ts';
import { readDecisions, readFacts } from './read-topics.ts';
import { Proposals } from './proposals.ts';
import { regather } from './regather-rows.ts';
import { externalizeLists } from './resolve-lists.ts';
import { staleRollouts } from './stale-rollouts.ts';
import { givenDrafts, readyEnough, withBaselines } from './ready-drafts.ts';

/** Where a crash test may end the process. */
export type FeedPoint =
  'feed-before-cut' | 'feed-after-cut' | 'feed-prepared' | 'feed-leased' | 'feed-committed' | 'feed-rewound' | 'feed-checkpoint';

export type FeedPorts = {
  readonly events: EventLog;
  readonly feeds: EventLog;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly reached: (point: FeedPoint) => void;
  /** Told about what went wrong and is tried again. */
  readonly onTrouble: (error: unknown, feed: string) => void;
  /** The groups of a batch of another feed, live timeline; null = not cut yet. */
  readonly groupsOf: (feed: string, n: number, signal: AbortSignal) => Promise<readonly GivenGroup[] | null>;
  /** Appends `rollout.cancelled` for each of these; what fails is tried again later. */
  readonly cancel: (rollouts: readonly RolloutFacts[], project: string) => Promise<void>;
  /** Whom workers may ask for judgements and teacher scores. */
  readonly upstreams: ScoringUpstreams;
};

export type FeedLimits = {
  /** Log bytes per partition that one pass reads. */
  readonly passBytes: number;
  /** A checkpoint at most this often, milliseconds. */
  readonly checkpointMs: number;
  /** Reading pauses while a commit is waited for and more rollouts are at hand than this, and than so many times the last batch. */
  readonly leastRollouts: number;
  readonly poolBatches: number;
};
export const FEED_LIMITS: FeedLimits = { passBytes: 1024 * 1024, checkpointMs: 15_000, leastRollouts: 10_000, poolBatches: 16 };

/** What the feed last found about itself; for status and for waiting requests. */
export type FeedView = { readonly caughtUp: boolean; readonly paused: boolean; readonly wait: CutWait | null; readonly ended: boolean };

/** What another feed's batch of the next number holds. */
type Given = { readonly n: number; readonly groups: readonly GivenGroup[] | null };

const READ_BACK_MS = 30_000;
const IDLE_MS = 5_000;
const STALE_EVERY_MS = 5_000;
const NO_VIEW: FeedView = { caughtUp: false, paused: false, wait: null, ended: false };

export class FeedEngine {
  readonly origin: FeedOrigin;
  readonly #ports: FeedPorts;
  readonly #limits: FeedLimits;
  #files: FeedFiles | null = null;
  #notes: GroupNotes = newGroupNotes();
  #yields: Yields = new Map();
  #view: FeedView = NO_VIEW;
  #trouble: string | null = 'it starts';
  #cancellations: Cancellations = newCancellations();
  #staleFor = '';
  readonly #changes: Changes;
  #kick = Promise.withResolvers<void>();
  readonly #proposals = new Proposals();
  /** A batch whose rows are wanted and are not at hand: the feed is folded anew, forgetting nothing above. */
  #wanted: number | null = null;
  #keptFor = '';
  #givenBatch: Given | null = null;
  readonly #scoring: FeedScoring;
  /** Rows of the last batch are on their way to the disk. */
  readonly #storing = new Behind();
  readonly #checkpoints: Checkpointer;

  constructor(origin: FeedOrigin, ports: FeedPorts, limits: FeedLimits = FEED_LIMITS) {
    this.origin = origin;
    this.#ports = ports;
    this.#limits = limits;
    this.#changes = new Changes(ports.clock);
    this.#scoring = new FeedScoring(origin, ports, () => this.#kick.resolve());
    const written = (): void => ports.reached('feed-checkpoint');
    this.#checkpoints = new Checkpointer({ clock: ports.clock, everyMs: limits.checkpointMs, written });
  }

  /** The state, or null while it is being opened (`trouble` says why). It must not be changed, and not be kept over an await. */
  get fold(): FeedFold | null {
    return this.#files?.fold ?? null;
  }

  get view(): FeedView {
    return this.#view;
  }

  get trouble(): string | null {
    return this.#trouble;
  }

  get notes(): GroupNotes {
    return this.#notes;
  }

  get cancellations(): Cancellations {
    return this.#cancellations;
  }

  get version(): number {
    return this.#changes.version;
  }

  get yields(): Yields {
    return this.#yields;
  }

  /** Runs until the signal aborts. What goes wrong is told and tried again from the last checkpoint. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, onTrouble } = this.#ports;
    try {
      await retry(() => this.#keepRunning(signal), {
        clock,
        random,
        signal,
        backoff: { firstMs: 50, maxMs: 10_000 },
        classify: () => (signal.aborted ? 'permanent' : 'retry'),
        onRetry: (error) => {
          this.#trouble = error instanceof Error ? error.message : String(error);
          if (!isTapedeckError(error, 'cache_corrupt')) onTrouble(error, this.origin.feed);
        },
      });
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      await this.#scoring.close();
    }
  }

  async #keepRunning(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) await this.#runOnce(signal);
  }

  /** Until the signal aborts, or until the state must be folded anew. */
  async #runOnce(signal: AbortSignal): Promise<void> {
    const { events, feeds, blobs, clock } = this.#ports;
    const above = this.#wanted;
    const files = await openFeedFiles(
      this.origin,
      { feeds, blobs, clock, partitions: events.partitions, forgetNothingAbove: above },
      signal,
    );
    this.#notes = newGroupNotes();
    this.#yields = new Map();
    this.#view = NO_VIEW;
    this.#keptFor = '';
    this.#givenBatch = null;
    this.#files = files;
    this.#trouble = null;
    try {
      while (!signal.aborted && !this.#mustBeginAnew(files)) await this.#pass(files, signal);
      await this.#storing.settled();
      await (signal.aborted && this.#wanted === null ? this.#checkpoints.write(files) : this.#checkpoints.settled());
    } catch (error) {
      // nothing may write to the feed's folder any more
      await Promise.allSettled([this.#storing.settled(), this.#checkpoints.settled()]);
      if (isTapedeckError(error, 'cache_corrupt')) await files.discard();
      throw error;
    } finally {
      this.#files = null;
      this.#view = NO_VIEW;
      files.close();
    }
  }

  /** Whether what is wanted was let go: the groups a rewind gives back, or the rows of a batch. What is wanted and only not read yet will come. */
  #mustBeginAnew({ fold }: FeedFiles): boolean {
    if (fold.rebuildAbove !== null) {
      this.#wanted = Math.min(fold.rebuildAbove, this.#wanted ?? Infinity);
      return true;
    }
    if (this.#wanted !== null && fold.holdsAbove > this.#wanted) return true;
    this.#wanted = null;
    return false;
  }

  /** One round: read, decide, append; or wait when there is nothing to do. */
  async #pass(files: FeedFiles, signal: AbortSignal): Promise<void> {
    const { fold } = files;
    fold.now = files.uptime();
    this.#scoring.noteFailures(fold);
    const caughtUp = await this.#read(files, signal);
    const decided = !this.#isOff(fold) && (await this.#decide(files, caughtUp, signal));
    if (fold.rebuildAbove !== null) return;
    await this.#keepRows(files, signal);
    if (!decided) this.#changes.note();
    this.#checkpoints.begin(files);
    if (!decided && (caughtUp || this.#view.paused)) await this.#idle(files, signal);
  }

  /** Nothing is to be decided now: the feed was deleted, or must be folded anew. */
  #isOff({ decisions, rebuildAbove }: FeedFold): boolean {
    return decisions.deleted || rebuildAbove !== null;
  }

  /** Decides about groups, then about the next batch: groups that become ready all the time must not hold up the batch that they fill. True when something was appended. */
  async #decide(files: FeedFiles, caughtUp: boolean, signal: AbortSignal): Promise<boolean> {
    const { fold } = files;
    const given = await this.#given(fold, signal);
    const drafts =
      given === null ? this.#groupDrafts(files, caughtUp) : givenDrafts(given.groups ?? [], { ...files, origin: this.origin, caughtUp });
    if (drafts.length > 0) await this.#append(files, drafts, signal);
    let cuts = 0;
    // as many as there are groups for: one a pass would fall behind while the log is long
    for (let at = -1; fold.nextDecision !== at && !this.#isOff(fold); cuts++) {
      at = fold.nextDecision;
      if (!(await this.#cut(files, caughtUp, signal))) break;
      await this.#keepRows(files, signal);
    }
    if (caughtUp && cuts === 0 && !this.#isOff(fold)) {
      this.#scoring.attend(files, this.#notes);
      await this.#cancelStale(fold);
    }
    return cuts > 0 || drafts.length > 0;
  }

  async #readDecisions(fold: FeedFold, signal: AbortSignal): Promise<void> {
    const { feeds, blobs } = this.#ports;
    await readDecisions(fold, feeds, this.origin.partition, blobs, ({ id, verdict }) => this.#proposals.tell(id, verdict), signal);
  }

  /** Returns whether everything was read that was there. */
  async #read({ fold }: FeedFiles, signal: AbortSignal): Promise<boolean> {
    const { events, blobs } = this.#ports;
    await this.#readDecisions(fold, signal);
    const paused = this.#isFull(fold);
    const caughtUp =
      !paused && (await readFacts(fold, events, blobs, this.#limits.passBytes, (each) => this.#cancellations.add(each), signal));
    this.#view = { ...this.#view, caughtUp, paused };
    return caughtUp;
  }

  /** Nothing can be cut before a commit, and more than enough is at hand: the log keeps the rest. */
  #isFull(fold: FeedFold): boolean {
    if (this.#view.wait?.kind !== 'commit') return false;
    const lately = fold.decisions.batches.get(lastCut(fold.decisions))?.counts.rollouts ?? 0;
    return fold.facts.rollouts.size > Math.max(this.#limits.leastRollouts, lately * this.#limits.poolBatches);
  }

  /** `membership: as:<feed>`: the groups of that feed's batch of the number that is next here; `groups` is null while it is not cut. Null for a feed that chooses itself. */
  async #given({ decisions }: FeedFold, signal: AbortSignal): Promise<Given | null> {
    const { membership } = this.origin.resolved.spec;
    if (membership === 'recut') return null;
    const n = lastCut(decisions) + 1;
    if (this.#givenBatch?.n === n && this.#givenBatch.groups !== null) return this.#givenBatch;
    this.#givenBatch = { n, groups: await this.#ports.groupsOf(membership.slice('as:'.length), n, signal) };
    return this.#givenBatch;
  }

  #groupDrafts(files: FeedFiles, caughtUp: boolean): Draft[] {
    const { fold } = files;
    if (!readyEnough(fold, this.origin)) return [];
    const expiry = this.origin.resolved.spec.rolloutExpirySeconds * 1_000_000;
    const judged = { fold, notes: this.#notes, ...this.#scoring.judging(fold), now: fold.now, expiry, caughtUp };
    return withBaselines(groupDecisions(judged), { ...files, origin: this.origin });
  }

  /** Cuts the next batch if it can be cut. True when something was appended. */
  async #cut(files: FeedFiles, caughtUp: boolean, signal: AbortSignal): Promise<boolean> {
    const context = this.#cutter(files, caughtUp, await this.#given(files.fold, signal));
    const next = await nextCut(context);
    const isWait = next.kind === 'wait';
    this.#view = { ...this.#view, wait: isWait ? next.wait : null, ended: next.kind === 'end' };
    if (isWait && next.wait.kind === 'commit') await noteYields(context);
    if (isWait || next.kind === 'end') return false;
    if (next.kind === 'drop') return this.#append(files, next.drafts, signal).then(() => true);
    const batch =
      next.kind === 'again'
        ? await cutAgain(next.link, { fold: files.fold, feeds: this.#ports.feeds, partition: this.origin.partition }, signal)
        : await cutBatch(context, next.n, next.groups, this.#ports.blobs, signal);
    if (batch.draft === null) {
      const { groups } = next as Extract<typeof next, { kind: 'cut' }>;
      return this.#append(files, groups.map((group) => failDraft(context, group, [], 'nothing_to_train')), signal).then(() => true); // prettier-ignore
    }
    const name = { n: lastCut(files.fold.decisions) + 1, batchId: batch.batchId };
    if (batch.rows.length > 0) files.batches.hold(name, batch.rows);
    this.#ports.reached('feed-before-cut');
    await this.#append(files, [batch.draft], signal);
    this.#ports.reached('feed-after-cut');
    this.#changes.note();
    await this.#storing.settled();
    if (batch.rows.length > 0) this.#storing.begin(() => files.batches.put(name, batch.rows));
    return true;
  }

  /** After each batch, and now and then: what runs and is too old for all that come is cancelled. */
  async #cancelStale(fold: FeedFold): Promise<void> {
    const { decisions } = fold;
    const { clock, cancel, onTrouble } = this.#ports;
    const state = [decisions.timeline, decisions.chain.length, Math.floor(clock.monotonicMs() / STALE_EVERY_MS)].join();
    if (state === this.#staleFor) return;
    this.#staleFor = state;
    const stale = staleRollouts(fold, this.origin.resolved);
    if (stale.length > 0) await cancel(stale, this.origin.project).catch((error: unknown) => onTrouble(error, this.origin.feed));
  }

  #cutter({ fold, rows }: FeedFiles, caughtUp: boolean, given: Given | null): CutterContext {
    return {
      fold,
      resolved: this.origin.resolved,
      load: rows,
      yields: this.#yields,
      caughtUp,
      given: given === null ? null : { keys: given.groups?.map((group) => groupKey(group)) ?? null },
    };
  }

  /** Appends and reads back. */
  async #append({ fold }: FeedFiles, drafts: readonly Draft[], signal: AbortSignal): Promise<void> {
    const { feeds, blobs, clock } = this.#ports;
    const records = [];
    for (const draft of drafts) {
      const slim = await externalizeLists(draft, blobs, signal);
      records.push(this.#record(slim, draftId(this.origin.project, draft), clock.nowMicros()));
    }
    await feeds.append(this.origin.partition, records, signal);
    await this.#readDecisions(fold, signal);
  }

  /** A decision of a feed that reads one run belongs to that run. */
  #record(draft: Draft, id: string, time: number): LogRecord {
    const { resolved, project } = this.origin;
    const run = draft.run ?? (resolved.spec.runs?.length === 1 ? resolved.spec.runs[0] : undefined);
    return recordOf(project, { ...draft, run }, id, time);
  }

  /**
   * Appends one decision of a request and resolves with what became of it once it was read back. `id` is the event's. Errors: those of an append; `not_ready` when the
   * feed is not running, `deadline_exceeded` when it is not read back in time (the decision may still count).
   */
  async propose(draft: Draft, id: string, signal?: AbortSignal): Promise<Verdict> {
    const { feeds, clock } = this.#ports;
    if (this.fold === null) throw new TapedeckError('not_ready', `feed ${this.origin.feed} is not ready: ${this.#trouble ?? 'it starts'}`);
    return this.#proposals.await(id, async (verdict) => {
      await feeds.append(this.origin.partition, [this.#record(draft, id, clock.nowMicros())], signal);
      this.#kick.resolve();
      return withDeadline(clock, READ_BACK_MS, 'a decision to be read back', () => verdict, signal);
    });
  }

  /** Waits until something changed since `version`, or `ms` passed. Rejects when the signal aborts. */
  async waitForChange(version: number, ms: number, signal?: AbortSignal): Promise<void> {
    return this.#changes.wait(version, ms, signal);
  }

  /** Puts a list that a decision is to name into the blob store. */
  async keepList(bytes: Uint8Array, mediaType: string, signal?: AbortSignal): Promise<BlobHandle> {
    return this.#ports.blobs.put(bytes, mediaType, signal);
  }

  /** The rows of a batch of the live chain, or null when they are being made again from the log: ask again after the next change. */
  async rowsOf(batch: BatchName, signal?: AbortSignal): Promise<readonly Row[] | null> {
    const files = this.#files;
    if (files === null) return null;
    const known = await files.batches.get(batch);
    if (known !== null) return known;
    const record = files.fold.decisions.batches.get(batch.n);
    const gathered =
      record === undefined || record.batchId !== batch.batchId ? null : await regather(record, files, this.#ports.blobs, signal);
    if (gathered === null) {
      this.#wanted = Math.min(this.#wanted ?? Infinity, batch.n - 1);
      this.#kick.resolve();
    }
    return gathered;
  }

  /** Rows that may still be asked for stay, the next ones in memory. */
  async #keepRows({ fold, batches }: FeedFiles, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const kept = batchesInUse(fold.decisions, this.origin.resolved.spec.keepCheckpoints);
    const state = JSON.stringify(kept.map(({ batchId }) => batchId));
    if (state === this.#keptFor) return;
    this.#keptFor = state;
    await batches.keep(kept, 2);
  }

  /** Waits for an append to either topic, a request, or the next deadline. */
  async #idle({ fold }: FeedFiles, signal: AbortSignal): Promise<void> {
    // while reading pauses no deadline passes, so that one that is over must not wake it again and again
    const deadline = this.#view.paused ? Infinity : (nextDeadline(this.#notes) - fold.now) / 1000;
    const ms = Math.max(1, Math.min(IDLE_MS, deadline));
    const seen = {
      positions: this.#view.paused ? null : fold.facts.positions,
      partition: this.origin.partition,
      nextDecision: fold.nextDecision,
    };
    await awaitAppend(this.#ports, seen, { ms, kick: this.#kick.promise, signal });
    this.#kick = Promise.withResolvers<void>();
  }
}
