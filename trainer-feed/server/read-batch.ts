/** Finds a batch and its prepared slices, waiting as long as the request allows. */
import { awaitFeed } from '../feed/await-feed.ts';
import type { BatchCounts, BatchRecord, ChainLink } from '../feed/decision-state.ts';
import type { FeedEngine } from '../feed/engine.ts';
import type { ExtraColumn } from '../planner/batch-columns.ts';
import type { PlanRequest } from '../planner/plan-request.ts';
import type { FeedService } from './feed-service.ts';
import { manifestOf } from './manifest.ts';
import type { PreparedBatch } from './slice-store.ts';

export type Found = {
  readonly link: ChainLink;
  readonly record: Pick<BatchRecord, 'algorithm' | 'policyVersion'> & { readonly counts: BatchCounts };
};

export class BatchReader {
  readonly #service: FeedService;
  readonly #engine: FeedEngine;
  readonly #n: number;
  readonly #started: number;

  constructor(service: FeedService, engine: FeedEngine, n: number) {
    this.#service = service;
    this.#engine = engine;
    this.#n = n;
    this.#started = service.clock.monotonicMs();
  }

  /** null = it is not cut yet, or never will be. */
  async find(waitMs: number, signal: AbortSignal): Promise<Found | null> {
    const engine = this.#engine;
    const found = await awaitFeed<{ link: ChainLink; record: BatchRecord | null } | 'never'>(
      engine,
      this.#service.clock,
      waitMs,
      ({ decisions }) => {
        const link = decisions.chain[this.#n - 1];
        if (link !== undefined) return { link, record: decisions.batches.get(this.#n) ?? null };
        return engine.view.ended || this.#n > decisions.committed + 1 + decisions.cutAhead ? 'never' : null;
      },
      signal,
    );
    if (found === null || found === 'never') return null;
    return { link: found.link, record: found.record ?? (await this.#longAgo(found.link, signal)) };
  }

  /** A batch that memory has let go: its decision is in the log. */
  async #longAgo(link: ChainLink, signal: AbortSignal): Promise<Found['record']> {
    const { feeds, blobs } = this.#service;
    const { algorithm, policyVersion, counts } = await manifestOf(link, link.n, { origin: this.#engine.origin, feeds, blobs, signal });
    return { algorithm, policyVersion, counts };
  }

  /** null = its rows are being made again from the log and are not there in time. */
  async prepare(
    { link, record }: Found,
    plan: PlanRequest,
    extra: readonly ExtraColumn[],
    waitMs: number,
    signal: AbortSignal,
  ): Promise<PreparedBatch | null> {
    const left = Math.max(0, waitMs - (this.#service.clock.monotonicMs() - this.#started));
    return awaitFeed(this.#engine, this.#service.clock, left, () => this.#service.prepare(this.#engine, link, record, plan, extra), signal);
  }
}
