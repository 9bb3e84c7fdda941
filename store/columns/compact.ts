/** Gives disk space back: rows that were deleted or replaced leave the parts. Work for an idle hour, since it rewrites tables. */
import { ALL_TABLES } from './all-tables.ts';
import type { ColumnStore, QueryOptions } from './column-store.ts';

export type Compaction = { readonly table: string; readonly bytesBefore: number; readonly bytesAfter: number };

const TABLE_TIMEOUT_MS = 3_600_000;

/** Compacts each table that has something to give, one after the other; `onTable` sees each result. Changes no answer. */
export async function compact(
  store: ColumnStore,
  options: { signal?: AbortSignal; onTable?: (done: Compaction) => void } = {},
): Promise<Compaction[]> {
  const query: QueryOptions = { timeoutMs: TABLE_TIMEOUT_MS, ...(options.signal ? { signal: options.signal } : {}) };
  const done: Compaction[] = [];
  for (const { name } of ALL_TABLES) {
    const before = await partsOf(store, name, query);
    if (before.masked > 0) await store.command(`ALTER TABLE ${name} APPLY DELETED MASK SETTINGS mutations_sync = 1`, query);
    if (before.parts > 1) await store.command(`OPTIMIZE TABLE ${name} FINAL SETTINGS optimize_throw_if_noop = 0`, query);
    if (before.masked === 0 && before.parts <= 1) continue;
    const after = await partsOf(store, name, query);
    const result = { table: name, bytesBefore: before.bytes, bytesAfter: after.bytes };
    done.push(result);
    options.onTable?.(result);
  }
  return done;
}

async function partsOf(store: ColumnStore, table: string, query: QueryOptions): Promise<{ parts: number; masked: number; bytes: number }> {
  const [row] = await store.rows<{ parts: string; masked: string; bytes: string }>(
    'SELECT count() AS parts, countIf(has_lightweight_delete) AS masked, sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database = currentDatabase() AND table = {table:String}',
    { ...query, params: { table } },
  );
  return { parts: Number(row?.parts ?? 0), masked: Number(row?.masked ?? 0), bytes: Number(row?.bytes ?? 0) };
}
