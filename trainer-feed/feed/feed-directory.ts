/**
 * All feeds of a server: found in the feeds topic, each run by an engine of its own. A feed is its `feed.created` event; the first one for a name counts, and the name is
 * never given away again.
 */
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { withDeadline } from '../../base/deadline.ts';
import { TapedeckError } from '../../base/errors.ts';
import { retry } from '../../base/retry.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { readEvent } from '../../events/read-event.ts';
import type { EventOf } from '../../events/registry.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import type { Registry } from '../algorithms/registry.ts';
import { draftId, recordOf, type Draft } from './draft.ts';
import { FeedEngine, type FeedLimits, type FeedPorts } from './engine.ts';
import { groupsOfBatch, type GivenGroup } from './other-feed.ts';
import { resolveFeedSpec, type FeedSpec } from './spec.ts';

export type FeedName = { readonly project: string; readonly feed: string };

/** A feed this server knows. `engine` is null when its spec cannot be carried out here; `problem` says why. */
export type KnownFeed = FeedName & {
  /** As created, with its defaults. */
  readonly spec: unknown;
  readonly specHash: string;
  /** Microseconds. */
  readonly created: number;
  readonly engine: FeedEngine | null;
  readonly problem: string | null;
};

export type DirectoryOptions = Omit<FeedPorts, 'groupsOf'> & {
  readonly registry: Registry;
  /** Folder for what the feeds keep on this machine. */
  readonly directory: string;
  readonly limits?: FeedLimits;
};

const SCAN_BYTES = 4 * 1024 * 1024;
const IDLE_MS = 30_000;
const READ_BACK_MS = 30_000;
const CREATED = Buffer.from('feed.created');

export class FeedDirectory {
  readonly #options: DirectoryOptions;
  readonly #feeds = new Map<string, KnownFeed>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[] = [];
  readonly #positions: number[];
  /** Until everything that was there at the start was read. */
  #loaded = false;
  #changed = Promise.withResolvers<void>();

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#positions = Array.from({ length: options.feeds.partitions }, () => 0);
    this.#running.push(this.#watch());
  }

  get loaded(): boolean {
    return this.#loaded;
  }

  list(project: string): KnownFeed[] {
    return [...this.#feeds.values()].filter((feed) => feed.project === project);
  }

  /** Errors: `not_ready` while feeds are still being looked for, `not_found`, `config_invalid` when this server cannot carry its spec out. */
  engine(name: FeedName): FeedEngine {
    const found = this.#feeds.get(keyOf(name));
    if (found === undefined) {
      if (!this.#loaded) throw new TapedeckError('not_ready', 'feeds are still being looked for in the log: ask again');
      throw new TapedeckError('not_found', `there is no feed ${name.feed} in project ${name.project}: create it with POST /v1/feeds`);
    }
    if (found.engine === null) throw new TapedeckError('config_invalid', `feed ${name.feed} cannot run on this server: ${found.problem}`);
    return found.engine;
  }

  /**
   * Creates a feed, or finds the one that was created with the same spec. Errors: `invalid_value` (all problems of the spec in `details.problems`), `feed_exists` (the name
   * is taken by another spec), `not_found` (`membership: as:<feed>` of an unknown feed).
   */
  async create(name: FeedName, input: unknown, signal?: AbortSignal): Promise<KnownFeed & { readonly made: boolean }> {
    const { feeds, clock } = this.#options;
    const resolved = resolveFeedSpec(input, this.#options.registry);
    if (!resolved.ok) {
      const problems = resolved.error.map(({ field, message }) => ({ field, message }));
      throw new TapedeckError(
        'invalid_value',
        `the spec has ${problems.length} fault(s): ${problems.map(({ message }) => message).join('; ')}`,
        { details: { problems } },
      );
    }
    const { spec, specHash } = resolved.value;
    const known = this.#feeds.get(keyOf(name));
    if (known !== undefined) return this.#same(known, specHash);
    if (spec.membership !== 'recut') this.engine({ ...name, feed: spec.membership.slice('as:'.length) });
    const draft: Draft = {
      type: 'feed.created',
      run: spec.runs?.length === 1 ? spec.runs[0] : undefined,
      key: [specHash],
      data: { feed: name.feed, timeline: 0, spec, specHash, ...(await this.#startOf(spec, signal)) },
    };
    const partition = partitionOf(name.feed, feeds.partitions);
    await feeds.append(partition, [recordOf(name.project, draft, draftId(name.project, draft), clock.nowMicros())], signal);
    const made = await withDeadline(clock, READ_BACK_MS, 'the new feed to be read back', (inner) => this.#appears(name, inner), signal);
    return { ...this.#same(made, specHash), made: true };
  }

  #same(known: KnownFeed, specHash: string): KnownFeed & { readonly made: boolean } {
    if (known.specHash === specHash) return { ...known, made: false };
    throw new TapedeckError(
      'feed_exists',
      `feed ${known.feed} exists with another spec: a feed never changes; take another name, or send its own spec again`,
      {
        details: { feed: known.feed, specHash: known.specHash },
      },
    );
  }

  async #startOf({ from }: FeedSpec, signal?: AbortSignal): Promise<{ positions: number[]; end: number[] }> {
    const { events } = this.#options;
    const bounds = await events.positions(signal);
    const end = bounds.map((bound) => bound.end);
    if (typeof from === 'object') {
      if (from.positions.length !== bounds.length) {
        throw new TapedeckError(
          'invalid_value',
          `from.positions: the log has ${bounds.length} partitions, ${from.positions.length} positions were given: give one per partition`,
        );
      }
      return { end, positions: bounds.map((bound, p) => Math.min(Math.max(bound.first, from.positions[p] as number), bound.end)) };
    }
    return { end, positions: from === 'now' ? end : bounds.map(({ first }) => first) };
  }

  async #appears(name: FeedName, signal: AbortSignal): Promise<KnownFeed> {
    for (;;) {
      const found = this.#feeds.get(keyOf(name));
      if (found !== undefined) return found;
      await Promise.race([this.#changed.promise, aborted(signal)]);
    }
  }

  /** Ends a feed for good. Its log stays. */
  async remove(name: FeedName, reason: string | null, signal?: AbortSignal): Promise<void> {
    const engine = this.engine(name);
    const { fold } = engine;
    if (fold === null) throw new TapedeckError('not_ready', `feed ${name.feed} is being read: ask again`);
    if (fold.decisions.deleted) return;
    const draft: Draft = { type: 'feed.deleted', key: [], data: { feed: name.feed, timeline: fold.decisions.timeline, reason } };
    await engine.propose(draft, draftId(name.project, draft), signal);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  /** Looks for feeds for ever. */
  async #watch(): Promise<void> {
    const { clock, random, onTrouble } = this.#options;
    const { signal } = this.#stop;
    try {
      await retry(() => this.#scan(signal), {
        clock,
        random,
        signal,
        backoff: { firstMs: 100, maxMs: 5_000 },
        classify: () => (signal.aborted ? 'permanent' : 'retry'),
        onRetry: (error) => onTrouble(error, 'all'),
      });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #scan(signal: AbortSignal): Promise<void> {
    const { feeds } = this.#options;
    while (!signal.aborted) {
      for (let partition = 0; partition < feeds.partitions; partition++) await this.#scanPartition(feeds, partition, signal);
      this.#loaded = true;
      this.#changed.resolve();
      this.#changed = Promise.withResolvers<void>();
      await feeds.waitForAppend(this.#positions, IDLE_MS, signal);
    }
  }

  async #scanPartition(feeds: EventLog, partition: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const chunk = await feeds.read(partition, this.#positions[partition] as number, { maxBytes: SCAN_BYTES, signal });
      for (const { value, offset } of chunk.records) {
        if (!Buffer.from(value.buffer, value.byteOffset, value.byteLength).includes(CREATED)) continue;
        const read = readEvent(value);
        if (read.ok && read.value.type === 'feed.created') this.#found(read.value, partition, offset);
      }
      this.#positions[partition] = chunk.next;
      if (chunk.records.length === 0 || chunk.next >= chunk.end) return;
    }
  }

  #found(event: EventOf<'feed.created'>, partition: number, offset: number): void {
    const { feed, spec, specHash, positions, end } = event.data;
    const project = event.project ?? DEFAULT_PROJECT;
    const key = keyOf({ project, feed });
    if (this.#feeds.has(key)) return;
    const known = { project, feed, spec, specHash, created: event.time };
    const resolved = resolveFeedSpec(spec, this.#options.registry);
    if (!resolved.ok) {
      this.#feeds.set(key, { ...known, engine: null, problem: resolved.error.map(({ message }) => message).join('; ') });
      return;
    }
    const { events, directory, limits } = this.#options;
    const engine = new FeedEngine(
      {
        feed,
        project,
        resolved: { ...resolved.value, specHash },
        created: event.time,
        offset,
        partition,
        end: end ?? null,
        start: positions ?? Array.from({ length: events.partitions }, () => 0),
        directory: join(directory, hash('sha256', JSON.stringify([project, feed]), 'hex').slice(0, 32)),
      },
      { ...this.#options, groupsOf: (other, n, signal) => this.#groupsOf({ project, feed: other }, n, signal) },
      limits,
    );
    this.#feeds.set(key, { ...known, engine, problem: null });
    this.#running.push(engine.run(this.#stop.signal));
  }

  async #groupsOf(name: FeedName, n: number, signal: AbortSignal): Promise<readonly GivenGroup[] | null> {
    const engine = this.#feeds.get(keyOf(name))?.engine;
    const link = engine?.fold?.decisions.chain[n - 1];
    if (engine === null || engine === undefined || link === undefined) return null;
    const { feeds, blobs } = this.#options;
    return groupsOfBatch(engine.origin, link, { feeds, blobs, signal });
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  if (signal.aborted) reject(signal.reason as Error);
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  return promise;
}

function keyOf({ project, feed }: FeedName): string {
  return JSON.stringify([project, feed]);
}
