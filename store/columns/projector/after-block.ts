/**
 * What follows a stored block, outside its ledger: views of new projects, rows of deleted runs, summaries, the search index. All of it is a function of the
 * facts and can be done again at any time. Summaries of a rollout are refreshed at most once a second (every four seconds under load), and always once the log is read to its end;
 * `progress` remembers up to where that is done, so that what a crash left undone is caught up at the next start.
 */
import type { Clock } from '../../../base/clock.ts';
import type { Topic } from '../../../events/registry.ts';
import type { ColumnStore } from '../column-store.ts';
import { deleteRun } from '../deletion.ts';
import { storePartition } from '../projections/position.ts';
import { Touched } from '../projections/touched.ts';
import { fillSearchIndex } from '../search-index.ts';
import { refreshSummaries } from '../summaries.ts';
import { ensureKnownProjects, ensureProject, type ProjectOptions } from '../views/ensure-project.ts';
import type { Candidate } from './classify.ts';
import { undoneSince } from './undone.ts';

export type AfterBlockOptions = {
  readonly store: ColumnStore;
  readonly topic: Topic;
  readonly clock: Clock;
  readonly projects: ProjectOptions;
  readonly reached?: (point: 'before-summaries' | 'after-summaries') => void;
};

/** `loaded`: blocks are large (fill-up.ts). `full`: more waits behind them. */
export type Load = 'calm' | 'loaded' | 'full';
/** What a block stored: its events, and the next offset of every partition. */
export type BlockReport = { readonly events: readonly StoredFact[]; readonly positions: readonly number[]; readonly load: Load };
type StoredFact = Pick<Candidate, 'type' | 'project' | 'run' | 'rollout'>;

export const SUMMARIES_TASK = 'summaries';
/** Two statements whose planning costs more than their work (130 ms of CPU for any number of rollouts): under load they are made less often. */
const REFRESH_MS = { calm: 1_000, loaded: 4_000, full: 4_000 } as const;
const SEARCH_EVERY_MS = 5_000;
const SEARCH_STEP_EVENTS = 5_000;

export class AfterBlock {
  readonly #options: AfterBlockOptions;
  readonly #ensured = new Set<string>();
  #pending = new Touched();
  /** What goes on behind the blocks, and how it failed. */
  #behind: Promise<void> | null = null;
  #failure: { readonly error: unknown } | null = null;
  #positions: readonly number[] | null = null;
  #caughtUp = false;
  #refreshedAt = 0;
  #searchedAt = 0;

  constructor(options: AfterBlockOptions) {
    this.#options = options;
  }

  /** Before a block is stored: its projects have their views, so that what is stored can be asked for. */
  async prepare(events: readonly StoredFact[]): Promise<void> {
    for (const { project } of events) if (!this.#ensured.has(project)) await this.#ensure(project);
  }

  /**
   * After each block. Summaries and the search index are refreshed behind the next blocks, one task at a time, so that they never hold back what is acknowledged; when the
   * projector is `full`, the search index waits. What failed behind the last block is thrown here, where it is tried again.
   */
  async run({ events, positions, load }: BlockReport, signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#options;
    this.#throwFailure();
    await this.#catchUp(signal);
    for (const { type, project, run, rollout } of events) {
      if (type === 'run.deleted' && run !== undefined) {
        await this.#behind; // it must not write rows of the run again
        await deleteRun(store, project, run, signal);
      }
      if (run !== undefined && rollout !== undefined) this.#pending.rollout(project, run, rollout);
    }
    this.#positions = positions;
    if (this.#behind !== null) return;
    const now = clock.monotonicMs();
    const isDue = now - this.#refreshedAt >= REFRESH_MS[load];
    const searches = load !== 'full' && now - this.#searchedAt >= SEARCH_EVERY_MS;
    if (isDue || searches) this.#goBehind(isDue, searches, signal);
  }

  /** When the log is read to its end. Answers true while there is more to do. */
  async idle(signal: AbortSignal): Promise<boolean> {
    await this.#behind;
    this.#throwFailure();
    await this.#catchUp(signal);
    if (this.#positions !== null) await this.#refresh(signal);
    return (await this.#search(signal)) > 0;
  }

  #goBehind(refreshes: boolean, searches: boolean, signal: AbortSignal): void {
    const work = async (): Promise<void> => {
      if (refreshes) await this.#refresh(signal);
      if (searches) await this.#search(signal);
    };
    this.#behind = work()
      .catch((error: unknown) => {
        this.#failure = { error };
      })
      .finally(() => {
        this.#behind = null;
      });
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure.error;
  }

  async #ensure(project: string): Promise<void> {
    await ensureProject(this.#options.store, project, this.#options.projects);
    this.#ensured.add(project);
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const { store, clock, topic, reached } = this.#options;
    const positions = this.#positions as readonly number[];
    const { rollouts } = this.#pending;
    this.#pending = new Touched(); // what is touched from here on is refreshed the next time
    this.#positions = null;
    reached?.('before-summaries');
    try {
      if (rollouts.length > 0) {
        await refreshSummaries(store, { rollouts }, { version: positions.reduce((sum, next) => sum + next, 0), signal });
      }
      const last = positions.flatMap((next, partition) =>
        next > 0 ? [`('${SUMMARIES_TASK}', ${storePartition(topic, partition)}, ${next - 1})`] : [],
      );
      await this.#remember(last, signal);
    } catch (error) {
      for (const key of rollouts) this.#pending.rollout(...key);
      this.#positions ??= positions;
      throw error;
    }
    this.#refreshedAt = clock.monotonicMs();
    reached?.('after-summaries');
  }

  async #remember(rows: readonly string[], signal: AbortSignal): Promise<void> {
    if (rows.length === 0) return;
    const settings = "SETTINGS async_insert = 0, deduplicate_insert = 'disable'";
    await this.#options.store.command(`INSERT INTO progress (task, _partition, _offset) ${settings} VALUES ${rows.join(', ')}`, { signal });
  }

  async #search(signal: AbortSignal): Promise<number> {
    this.#searchedAt = this.#options.clock.monotonicMs();
    return this.#options.topic === 'events' ? fillSearchIndex(this.#options.store, { maxEvents: SEARCH_STEP_EVENTS, signal }) : 0;
  }

  /** Once per start: what was stored beyond `progress` may lack what follows a block. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    if (this.#caughtUp) return;
    const { store, topic } = this.#options;
    const undone = await undoneSince(store, topic, SUMMARIES_TASK, signal);
    for (const { project, run } of undone.deleted) await deleteRun(store, project, run, signal);
    for (const project of await ensureKnownProjects(store, this.#options.projects)) this.#ensured.add(project);
    for (const [project, run, rollout] of undone.rollouts) this.#pending.rollout(project, run, rollout);
    if (undone.positions.length > 0) this.#positions = undone.positions;
    this.#caughtUp = true;
  }
}
