/** Everything behind the routes: the feeds of this server, their slices, prepared ahead for the plan a trainer uses, and the events a trainer's reports become. */
import { join } from 'node:path';
import { hash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { Registry } from '../algorithms/registry.ts';
import type { BatchRecord, ChainLink } from '../feed/decision-state.ts';
import type { FeedEngine, FeedLimits, FeedPoint } from '../feed/engine.ts';
import { FeedDirectory, type FeedName } from '../feed/feed-directory.ts';
import type { RolloutFacts } from '../groups/rollout-facts.ts';
import type { ExtraColumn } from '../planner/batch-columns.ts';
import { ScoringUpstreams, type ScoringUpstream } from '../scoring/upstream.ts';
import { planRequest, type PlanRequest } from '../planner/plan-request.ts';
import { Reports, type Report } from './reports.ts';
import { openSliceStore, type PreparedBatch, type SliceStore } from './slice-store.ts';

export type FeedServiceOptions = {
  readonly events: EventLog;
  readonly feeds: EventLog;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: Registry;
  readonly directory: string;
  /** Slices kept in memory per feed, bytes. */
  readonly sliceBytes: number;
  readonly limits?: FeedLimits;
  readonly reached?: (point: FeedPoint) => void;
  readonly onTrouble: (error: unknown, feed: string) => void;
  /** Model servers that judge or teach, from the configuration. */
  readonly upstreams?: readonly ScoringUpstream[];
  /** Requests to one of them at a time. */
  readonly scoringRequests?: number;
};

const PREPARE_EVERY_MS = 5_000;

export class FeedService {
  readonly directory: FeedDirectory;
  readonly clock: Clock;
  readonly random: Random;
  readonly events: EventLog;
  readonly feeds: EventLog;
  readonly blobs: BlobStore;
  readonly reached: (point: FeedPoint) => void;
  readonly #options: FeedServiceOptions;
  readonly #reports: Reports;
  readonly #slices = new Map<FeedEngine, Promise<SliceStore>>();
  readonly #stop = new AbortController();
  readonly #closing = new AbortController();
  readonly #preparing: Promise<void>[] = [];

  constructor(options: FeedServiceOptions) {
    this.#options = options;
    this.#reports = new Reports(options);
    this.clock = options.clock;
    this.random = options.random;
    this.events = options.events;
    this.feeds = options.feeds;
    this.blobs = options.blobs;
    this.reached = options.reached ?? (() => {});
    this.directory = new FeedDirectory({
      ...options,
      directory: join(options.directory, 'state'),
      reached: this.reached,
      upstreams: new ScoringUpstreams(options.upstreams ?? [], {
        clock: options.clock,
        random: options.random,
        concurrency: options.scoringRequests ?? 16,
        onRetry: (error, upstream) => options.onTrouble(error, `upstream ${upstream}`),
      }),
      cancel: (rollouts, project) => this.#cancel(rollouts, project),
    });
  }

  /** Aborts when the server begins to close. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Ends all waiting requests. */
  stopWaiting(): void {
    this.#closing.abort(new TapedeckError('closed', 'this server is closing; send the same request to another one or again later'));
  }

  /** Errors: those of `FeedDirectory.engine`. */
  engine(name: FeedName): FeedEngine {
    const engine = this.directory.engine(name);
    if (!this.#slices.has(engine)) {
      this.#slices.set(engine, this.#openSlices(engine));
      this.#preparing.push(this.#prepareAhead(engine));
    }
    return engine;
  }

  #openSlices({ origin }: FeedEngine): Promise<SliceStore> {
    return openSliceStore({
      directory: join(this.#options.directory, 'slices', hash('sha256', JSON.stringify([origin.project, origin.feed]), 'hex').slice(0, 32)),
      memoryBytes: this.#options.sliceBytes,
      onPrepared: () => this.reached('feed-prepared'),
    });
  }

  slices(engine: FeedEngine): Promise<SliceStore> {
    return this.#slices.get(engine) as Promise<SliceStore>;
  }

  /** The slices of a batch under a plan; null while its rows are being made again from the log. */
  async prepare(
    engine: FeedEngine,
    link: ChainLink,
    record: Pick<BatchRecord, 'algorithm' | 'policyVersion' | 'counts'>,
    request: PlanRequest,
    extra: readonly ExtraColumn[],
    signal?: AbortSignal,
  ): Promise<PreparedBatch | null> {
    const store = await this.slices(engine);
    const { counts } = record;
    const header = {
      feed: engine.origin.feed,
      timeline: link.timeline,
      n: link.n,
      batchId: link.batchId,
      algorithm: record.algorithm,
      policyVersion: record.policyVersion,
      counts: { nRl: counts.N_rl, nCe: counts.N_ce, nRefKl: counts.N_ref_kl },
    };
    return store.prepare({ header, request, extra }, () => engine.rowsOf(link, signal));
  }

  /** Slices of the leased and the next batch, for the plan that is leased, as soon as they are cut. Runs until the service closes. */
  async #prepareAhead(engine: FeedEngine): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const { version } = engine;
      try {
        await this.#prepareNext(engine);
      } catch (error) {
        if (!(error instanceof TapedeckError)) this.#options.onTrouble(error, engine.origin.feed);
      }
      await engine.waitForChange(version, PREPARE_EVERY_MS, signal).catch(() => {});
    }
  }

  async #prepareNext(engine: FeedEngine): Promise<void> {
    const { fold } = engine;
    if (fold === null) return;
    const { decisions } = fold;
    const { committed, lease } = decisions;
    const due = decisions.chain.slice(committed);
    const store = await this.slices(engine);
    await store.keep(new Set([...decisions.chain.slice(Math.max(0, committed - 1)), ...decisions.replay].map(({ batchId }) => batchId)));
    if (lease === null || lease.plan === null) return;
    const plan = planRequest.safeParse(lease.plan);
    if (!plan.success) return;
    for (const link of due.slice(0, 2)) {
      const record = decisions.batches.get(link.n);
      if (record !== undefined) await this.prepare(engine, link, record, plan.data, []);
    }
  }

  /** Tells runners, through the log, to stop what would be thrown away. */
  async #cancel(rollouts: readonly RolloutFacts[], project: string): Promise<void> {
    for (const { run, rollout } of rollouts) {
      const data = { reason: 'stale', message: 'its weights are too old for every batch to come' };
      await this.report({ type: 'rollout.cancelled', project, run, rollout, data }, [rollout], null);
    }
  }

  /** `key` names the report within its project, run and type. Errors: `report_conflict`; those of an append. */
  report(event: Report, key: readonly unknown[], engine: FeedEngine | null): Promise<void> {
    return this.#reports.send(event, key, engine, this.closing);
  }

  async close(): Promise<void> {
    this.stopWaiting();
    this.#stop.abort();
    await Promise.all(this.#preparing);
    await this.directory.close();
  }
}
