/**
 * A lock made of a table: creating it is atomic, and its comment says until when it holds. A holder that died is taken over when its time is up.
 * Two takers can meet in the moment after that; migrations are idempotent, so they then only do the same work twice.
 */
import { isTapedeckError, TapedeckError } from '../base/errors.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import type { MigrateOptions } from './migrate.ts';
import { quote } from './render.ts';

/** A holder renews its lock before every statement; one statement takes far less than this. */
const HOLD_SECONDS = 20;
const WAIT_MS = 120_000;
const POLL_MS = 100;
const TABLE_ALREADY_EXISTS = 57;

/** Runs `work` while holding the lock; `work` calls `beat` between its steps. Errors: `deadline_exceeded`. */
export async function withMigrationLock(
  store: ColumnStore,
  options: MigrateOptions,
  work: (beat: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const table = `${quote(options.database)}.migration_lock`;
  await takeLock(store, table, options);
  try {
    await work(async () => store.command(`ALTER TABLE ${table} MODIFY COMMENT '${await holdUntil(store)}'`));
  } finally {
    await store.command(`DROP TABLE IF EXISTS ${table}`);
  }
}

async function takeLock(store: ColumnStore, table: string, { clock, database, signal }: MigrateOptions): Promise<void> {
  const giveUpAt = clock.monotonicMs() + WAIT_MS;
  for (;;) {
    try {
      await store.command(`CREATE TABLE ${table} (x UInt8) ENGINE = Memory COMMENT '${await holdUntil(store)}'`);
      return;
    } catch (error) {
      if (!isTapedeckError(error) || Number(error.details['clickhouseCode']) !== TABLE_ALREADY_EXISTS) throw error;
    }
    if (await isExpired(store, database)) await store.command(`DROP TABLE IF EXISTS ${table}`);
    else if (clock.monotonicMs() > giveUpAt) {
      throw new TapedeckError('deadline_exceeded', `another process has held the migration lock for ${WAIT_MS / 1000} s`);
    } else await clock.sleep(POLL_MS, signal);
  }
}

/** Seconds since 1970 by the store's own clock. */
async function holdUntil(store: ColumnStore): Promise<number> {
  const [row] = await store.rows<{ now: number }>('SELECT toUInt32(now()) AS now');
  return Number(row?.now) + HOLD_SECONDS;
}

async function isExpired(store: ColumnStore, database: string): Promise<boolean> {
  const rows = await store.rows<{ expired: number }>(
    "SELECT toUInt8(toUInt32OrZero(comment) < toUInt32(now())) AS expired FROM system.tables WHERE database = {database:String} AND name = 'migration_lock'",
    { params: { database } },
  );
  return rows.length === 0 || Number(rows[0]?.expired) === 1;
}
