/**
 * Brings a database to the schema this program knows: forward only, each file once, under a lock. Every statement is idempotent, so a migration
 * that was cut short is simply run again.
 */
import type { Clock } from '../base/clock.ts';
import { TapedeckError } from '../base/errors.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { readMigrations, type Migration } from './files.ts';
import { withMigrationLock } from './migration-lock.ts';
import { quote, renderStatements, type SchemaTarget } from './render.ts';

export type MigrateOptions = SchemaTarget & {
  readonly clock: Clock;
  readonly migrations?: readonly Migration[];
  readonly signal?: AbortSignal;
};

/**
 * Returns the versions before and after. Errors: `schema_unknown` when the database was made by a newer program or by other files,
 * `deadline_exceeded` when another process holds the lock for too long, and whatever the store says.
 */
export async function migrate(store: ColumnStore, options: MigrateOptions): Promise<{ from: number; to: number }> {
  const migrations = options.migrations ?? readMigrations();
  const target: SchemaTarget = { database: options.database, cluster: options.cluster, compression: options.compression ?? 'zstd' };
  const run = (sql: string): Promise<void> => store.command(sql, commandOptions(options));
  const to = migrations.at(-1)?.version ?? 0;
  const from = await currentVersion(store, target, migrations);
  if (from === to) return { from, to };
  for (const statement of renderStatements(BOOTSTRAP, target)) await run(statement);
  await withMigrationLock(store, options, async (beat) => {
    const reached = await currentVersion(store, target, migrations);
    for (const migration of migrations.filter((m) => m.version > reached)) {
      for (const statement of renderStatements(migration.sql, target)) {
        await beat();
        await run(statement);
      }
      await run(recordOf(migration, target));
    }
  });
  return { from, to };
}

/** What must be there before the first migration. */
export const BOOTSTRAP = `
{{database}};
CREATE TABLE IF NOT EXISTS {{table schema_version}} (version UInt32, name String, checksum String, applied DateTime64(6, 'UTC'))
ENGINE = {{everywhere}} ORDER BY version SETTINGS {{settings}};
`;

function recordOf({ version, name, checksum }: Migration, { database }: SchemaTarget): string {
  return `INSERT INTO ${quote(database)}.schema_version (version, name, checksum, applied) SETTINGS async_insert = 0, deduplicate_insert = 'disable' SELECT ${version}, '${name}', '${checksum}', now64(6, 'UTC')`;
}

/** The version the database is at, 0 when it is empty. */
async function currentVersion(store: ColumnStore, target: SchemaTarget, migrations: readonly Migration[]): Promise<number> {
  const { database } = target;
  const exists = await store.rows<{ found: number }>(
    "SELECT toUInt8(count() > 0) AS found FROM system.tables WHERE database = {database:String} AND name = 'schema_version'",
    { params: { database } },
  );
  if (Number(exists[0]?.found ?? 0) === 0) return 0;
  const applied = await store.rows<{ version: number; checksum: string }>(
    `SELECT version, argMax(checksum, applied) AS checksum FROM ${quote(database)}.schema_version GROUP BY version ORDER BY version`,
  );
  for (const { version, checksum } of applied) assertKnown(Number(version), checksum, migrations);
  return Number(applied.at(-1)?.version ?? 0);
}

function assertKnown(version: number, checksum: string, migrations: readonly Migration[]): void {
  const known = migrations[version - 1];
  if (known === undefined) {
    const newest = migrations.at(-1)?.version ?? 0;
    throw new TapedeckError(
      'schema_unknown',
      `the database is at schema version ${version}, this program knows up to ${newest}: start a newer program, or restore an older database`,
      { details: { version, newest } },
    );
  }
  if (known.checksum !== checksum) {
    throw new TapedeckError('schema_unknown', `migration ${known.name} was applied with other content: migrations are never edited`, {
      details: { version },
    });
  }
}

function commandOptions(options: MigrateOptions): { signal?: AbortSignal } {
  return options.signal ? { signal: options.signal } : {};
}
