/**
 * Builds every table again from the log into a database beside the live one, with the same projector. Then either the answers of all views are compared, or
 * the new tables take the place of the live ones, one atomic exchange per table, `log_index` last.
 */
import type { Clock } from '../../../base/clock.ts';
import type { Random } from '../../../base/random.ts';
import { migrate } from '../../../migrations/migrate.ts';
import type { Topic } from '../../../events/registry.ts';
import type { EventLog } from '../../log/event-log.ts';
import { DATA_TABLES } from '../all-tables.ts';
import type { ColumnStore } from '../column-store.ts';
import { deleteRun } from '../deletion.ts';
import { projectDatabase } from '../project-database.ts';
import { AfterBlock } from '../projector/after-block.ts';
import { Projector } from '../projector/projector.ts';
import type { ProjectorState } from '../projector/state.ts';
import { CATALOGUE } from '../views/catalogue.ts';
import type { ProjectOptions } from '../views/ensure-project.ts';
import { compareView, type ViewComparison } from './compare-views.ts';
import { deletedRuns } from './tombstones-first.ts';

/** Where to stop, per topic and partition. */
export type RebuildEnds = Readonly<Record<Topic, readonly number[]>>;

export type RebuildOptions = {
  readonly log: EventLog;
  /** The topic of trainer feeds; null where there is none. */
  readonly feeds: EventLog | null;
  /** Connects to a database of the store. */
  readonly connect: (database: string) => ColumnStore;
  readonly live: ProjectOptions;
  readonly fetchBlob: (sha256: string) => Promise<Uint8Array>;
  readonly clock: Clock;
  readonly random: Random;
  readonly blockBytes: number;
  readonly blockEvents: number;
  readonly onState: (state: ProjectorState) => void;
};

export class Rebuild {
  readonly #options: RebuildOptions;
  readonly #side: ProjectOptions;
  readonly #admin: ColumnStore;
  #store: ColumnStore | null = null;
  #topics: readonly { readonly topic: Topic; readonly projector: Projector; readonly after: AfterBlock }[] = [];

  constructor(options: RebuildOptions) {
    this.#options = options;
    this.#side = {
      ...options.live,
      database: `${options.live.database}_rebuild`,
      databaseOf: (project) => `rebuild_${projectDatabase(project)}`,
    };
    this.#admin = options.connect('default');
  }

  /** Projects each topic up to its `ends` (next offsets) into the side database, from the start the first time, going on later. */
  async build(ends: RebuildEnds, signal: AbortSignal): Promise<void> {
    if (this.#topics.length === 0) await this.#open(ends.events, signal);
    for (const { topic, projector, after } of this.#topics) {
      await projector.run(signal, ends[topic]);
      while (!signal.aborted && (await after.idle(signal)) === true);
    }
    await this.#deleteAgain(signal);
  }

  async #open(ends: readonly number[], signal: AbortSignal): Promise<void> {
    const { log, feeds, clock, random, fetchBlob, blockBytes, blockEvents, onState } = this.#options;
    await this.#dropSide(signal);
    await migrate(this.#admin, { ...this.#side, clock });
    const store = this.#options.connect(this.#side.database);
    this.#store = store;
    const deleted = await deletedRuns(log, ends, signal);
    const open = (topic: Topic, of: EventLog) => {
      const after = new AfterBlock({ store, topic, clock, projects: this.#side });
      const told = topic === 'events' ? { onState } : {};
      const options = {
        log: of,
        topic,
        store,
        fetchBlob,
        clock,
        random,
        blockBytes,
        blockEvents,
        blockWaitMs: 0,
        after,
        deletedRuns: deleted,
        ...told,
      };
      return { topic, after, projector: new Projector(options) };
    };
    this.#topics = [open('events', log), ...(feeds === null ? [] : [open('feeds', feeds)])];
  }

  /** Rows that name a deleted run in their data, not in their envelope (feed decisions), were not held back by the projector. */
  async #deleteAgain(signal: AbortSignal): Promise<void> {
    const store = this.#store as ColumnStore;
    const deleted = await store.rows<{ project: string; run: string }>('SELECT DISTINCT project, run FROM tombstones', { signal });
    for (const { project, run } of deleted) await deleteRun(store, project, run, signal);
  }

  /** Compares every view of every project of both sides. The live side must stand still. */
  async compare(onView: (comparison: ViewComparison) => void, signal: AbortSignal): Promise<boolean> {
    const { database } = this.#options.live;
    const projects = await this.#admin.rows<{ project: string }>(
      `SELECT DISTINCT project FROM (SELECT project FROM \`${database}\`.projects UNION ALL SELECT project FROM \`${this.#side.database}\`.projects) ORDER BY project`,
      { signal },
    );
    let equal = true;
    for (const { project } of projects) {
      for (const { name } of CATALOGUE) {
        const names = { project, view: name, live: projectDatabase(project), rebuilt: (this.#side.databaseOf ?? projectDatabase)(project) };
        const comparison = await compareView(this.#admin, names, signal);
        onView(comparison);
        equal &&= comparison.equal;
      }
    }
    return equal;
  }

  /** Puts the new tables in the place of the live ones. The live projector must stand still. */
  async exchange(signal: AbortSignal): Promise<void> {
    const locals = await this.#admin.rows<{ name: string }>(
      "SELECT name FROM system.tables WHERE database = {live:String} AND endsWith(name, '_local')",
      { params: { live: this.#options.live.database }, signal },
    );
    const isLocal = new Set(locals.map(({ name }) => name));
    const where = this.#options.live.cluster === null ? '' : ` ON CLUSTER \`${this.#options.live.cluster.name}\``;
    for (const name of [...DATA_TABLES.map((table) => table.name).filter((table) => table !== 'log_index'), 'progress', 'log_index']) {
      const table = isLocal.has(`${name}_local`) ? `${name}_local` : name; // the table that holds the rows, of those spread over a cluster
      const tables = `\`${this.#options.live.database}\`.${table} AND \`${this.#side.database}\`.${table}`;
      await this.#admin.command(`EXCHANGE TABLES ${tables}${where}`, { signal });
    }
  }

  /** Removes the side database and its views. */
  async close(signal: AbortSignal): Promise<void> {
    await this.#store?.close();
    await this.#dropSide(signal);
    await this.#admin.close();
  }

  async #dropSide(signal: AbortSignal): Promise<void> {
    const where = this.#options.live.cluster === null ? '' : ` ON CLUSTER \`${this.#options.live.cluster.name}\``;
    const names = await this.#admin.rows<{ name: string }>(
      "SELECT name FROM system.databases WHERE name = {side:String} OR startsWith(name, 'rebuild_p_')",
      {
        params: { side: this.#side.database },
        signal,
      },
    );
    for (const { name } of names) await this.#admin.command(`DROP DATABASE IF EXISTS \`${name}\`${where} SYNC`, { signal });
  }
}
