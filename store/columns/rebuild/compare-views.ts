/** Compares the answers of every view of a project in two databases, row by row and byte by byte, whatever the order of the rows. */
import type { ColumnStore } from '../column-store.ts';

export type ViewComparison = {
  readonly project: string;
  readonly view: string;
  readonly rows: number;
  readonly rebuiltRows: number;
  readonly equal: boolean;
  /** A row that only one side has, when they differ. */
  readonly difference: { readonly only: 'live' | 'rebuilt'; readonly row: string } | null;
};

/** `live` and `rebuilt` are names of databases that hold the same views. */
export async function compareView(
  store: ColumnStore,
  names: { readonly project: string; readonly view: string; readonly live: string; readonly rebuilt: string },
  signal: AbortSignal,
): Promise<ViewComparison> {
  const { project, view } = names;
  const live = await digest(store, names.live, view, signal);
  const rebuilt = await digest(store, names.rebuilt, view, signal);
  const equal = live.rows === rebuilt.rows && live.hash === rebuilt.hash;
  const difference = equal ? null : await firstDifference(store, names, signal);
  return { project, view, rows: Number(live.rows), rebuiltRows: Number(rebuilt.rows), equal, difference };
}

/** Sum and xor of a 64-bit hash of each row: independent of order, and a doubled or a missing row shows in the count. */
async function digest(store: ColumnStore, database: string, view: string, signal: AbortSignal): Promise<{ rows: string; hash: string }> {
  const sql = `SELECT count() AS rows, concat(toString(sum(h)), '/', toString(groupBitXor(h))) AS hash FROM (SELECT sipHash64(${ROW}) AS h FROM \`${database}\`.\`${view}\`)`;
  const [row] = await store.rows<{ rows: string; hash: string }>(sql, { signal });
  return row as { rows: string; hash: string };
}

/** Text is exact for every type: floats print their shortest exact form, NULL and the empty string differ. */
const ROW = 'toString(tuple(*))';

async function firstDifference(
  store: ColumnStore,
  names: { readonly view: string; readonly live: string; readonly rebuilt: string },
  signal: AbortSignal,
): Promise<ViewComparison['difference']> {
  const rowsOf = (database: string): string => `SELECT ${ROW} AS row FROM \`${database}\`.\`${names.view}\``;
  for (const [only, here, there] of [
    ['live', names.live, names.rebuilt],
    ['rebuilt', names.rebuilt, names.live],
  ] as const) {
    const sql = `SELECT row FROM (${rowsOf(here)}) WHERE row NOT IN (${rowsOf(there)}) ORDER BY row LIMIT 1`;
    const [first] = await store.rows<{ row: string }>(sql, { signal });
    if (first !== undefined) return { only, row: first.row.slice(0, 4000) };
  }
  return null;
}
