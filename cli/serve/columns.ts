/**
 * The column store of a running server: the embedded engine child or a ClickHouse server, connected, migrated, and watched. Opening goes on in the
 * background, so that the edge accepts events while the store starts or is away; `ready` says what it waits for.
 */
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import { migrate } from '../../migrations/migrate.ts';
import { connectColumns } from '../../store/columns/clickhouse-http.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { startEngine, type Engine } from '../../store/columns/engine/supervise.ts';
import { ProjectUsers } from '../../store/columns/project-users/project-users.ts';
import type { ProjectOptions } from '../../store/columns/views/ensure-project.ts';
import { paths, type Config } from '../config.ts';
import { sqlLimits } from './sql-limits.ts';

/** How to reach the store; crosses process borders. */
export type ColumnsAddress = { readonly url: string; readonly user: string; readonly password: string; readonly database: string };

export type Columns = {
  readonly store: ColumnStore;
  /** For queries that people write: on a ClickHouse server they run as the user of their project. */
  readonly asked: ColumnStore;
  readonly address: ColumnsAddress;
  /** Null when the tables are there and the store answers; else what is waited for. */
  waitingFor(signal: AbortSignal): Promise<string | null>;
  /** Settles when the schema is in place; rejects with `schema_unknown` and other faults that waiting cannot cure. */
  readonly opened: Promise<void>;
  close(): Promise<void>;
};

/** Where the tables lie, for migrations and views. */
export function projectOptions(config: Pick<Config, 'clickhouseDatabase' | 'clickhouseCluster' | 'clickhouseUrl'>): ProjectOptions {
  return {
    database: config.clickhouseDatabase,
    compression: config.clickhouseUrl === undefined ? 'by part size' : 'zstd',
    cluster: config.clickhouseCluster === undefined ? null : { name: config.clickhouseCluster },
  };
}

type Deps = { readonly clock: Clock; readonly random: Random; readonly logger: Logger };

export async function openColumns(config: Config, deps: Deps): Promise<Columns> {
  const engine = config.clickhouseUrl === undefined ? await startEmbedded(config, deps) : null;
  const address: ColumnsAddress = {
    url: engine?.url ?? (config.clickhouseUrl as string),
    user: engine?.user ?? config.clickhouseUser,
    password: engine?.password ?? config.clickhousePassword,
    database: config.clickhouseDatabase,
  };
  const store = connectColumns({ ...address, clock: deps.clock, random: deps.random });
  const users = engine === null ? projectUsers(config, store) : null;
  const stop = new AbortController();
  let pending: string | null = 'the column store starts';
  // the schema is made from a database that always exists
  const maker = connectColumns({ ...address, database: 'default', clock: deps.clock, random: deps.random });
  const opened = openSchema(config, { maker, users }, deps, stop.signal, (text) => (pending = text)).then(() => maker.close());
  opened.catch(() => {}); // awaited by whoever needs it
  return {
    store,
    asked: users ?? store,
    address,
    opened,
    waitingFor: async (signal) => {
      if (pending !== null) return pending;
      if (engine !== null && engine.state() !== 'up') return `the embedded engine is ${engine.state()}`;
      return store.ping(signal).then(
        () => null,
        (error: unknown) => `the column store: ${error instanceof Error ? error.message : String(error)}`,
      );
    },
    close: async () => {
      stop.abort();
      await store.close();
      await engine?.close();
    },
  };
}

/** Null where queries run as the owner of the tables. */
function projectUsers(config: Config, store: ColumnStore): ProjectUsers | null {
  if (!config.clickhouseProjectUsers || !config.roles.includes('query')) return null;
  const { database, cluster } = projectOptions(config);
  return new ProjectUsers({ store, target: { database, cluster }, caps: sqlLimits(config), secret: config.clickhousePassword });
}

async function startEmbedded(config: Config, { clock, random, logger }: Deps): Promise<Engine> {
  return startEngine({
    dataDir: paths(config).engine,
    nice: 10,
    slots: config.engineSlots,
    log: logger.child({ part: 'engine' }),
    clock,
    random,
  });
}

async function openSchema(
  config: Config,
  stores: { readonly maker: ColumnStore; readonly users: ProjectUsers | null },
  deps: Deps,
  signal: AbortSignal,
  tell: (text: string | null) => void,
): Promise<void> {
  const { clock, random, logger } = deps;
  const make = async (): Promise<{ from: number; to: number }> => {
    const moved = await migrate(stores.maker, { ...projectOptions(config), clock });
    await stores.users?.prepare();
    return moved;
  };
  const { from, to } = await retry(make, {
    clock,
    random,
    signal,
    backoff: { firstMs: 50, maxMs: 2_000 },
    classify: (error) => (isTapedeckError(error) && error.retriable ? 'retry' : 'permanent'),
    onRetry: (error) => tell(`the column store: ${error instanceof Error ? error.message : String(error)}`),
  });
  if (from !== to) logger.info(`schema moved from version ${from} to ${to}`);
  tell(null);
}
