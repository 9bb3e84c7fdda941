/** Asks the store what it already knows about the events of a block: ids, entities, tombstones. */
import type { ColumnStore } from '../column-store.ts';
import { listSettings, tupleLiteral } from '../sql-literal.ts';
import { runKey, traceText, type Candidate, type Entity, type TraceKey } from './classify.ts';
import { KnownEntities, KnownIds } from './known-facts.ts';

const LIST_CHUNK = 10_000;
/** Beyond this one text that is split costs less: the planner takes longer over a literal than the look-up over an id (10,000 ids: 106 ms of CPU against 46). */
const LITERALS = 2_000;

/** Which of these ids are stored, at which offset and with which content hash. */
export async function knownIds(store: ColumnStore, candidates: readonly Candidate[], signal: AbortSignal): Promise<KnownIds> {
  const found = new KnownIds();
  const ids = [...new Set(candidates.map((c) => c.id))];
  for (let at = 0; at < ids.length; at += LIST_CHUNK) {
    const list = idSet(ids.slice(at, at + LIST_CHUNK));
    const sql = `SELECT toString(id) AS id, _partition AS partition, toUInt64(min(_offset)) AS offset, argMin(hex(hash), _offset) AS hash, project FROM event_ids WHERE id IN (${list}) GROUP BY id, _partition, project`;
    const rows = await store.rows<{ id: string; project: string; partition: number; offset: string; hash: string }>(sql, {
      settings: listSettings(sql.length),
      signal,
    });
    for (const row of rows)
      found.set({ ...row, partition: Number(row.partition) }, { offset: Number(row.offset), hash: row.hash.toLowerCase() });
  }
  return found;
}

function idSet(ids: readonly string[]): string {
  if (ids.length <= LITERALS) return ids.map((id) => `'${id}'`).join(',');
  return `SELECT toUUID(arrayJoin(splitByChar(',', '${ids.join(',')}')))`;
}

/** Runs that were deleted, as `runKey`s. */
export async function knownTombstones(store: ColumnStore, signal: AbortSignal): Promise<Set<string>> {
  const rows = await store.rows<{ project: string; run: string }>('SELECT DISTINCT project, run FROM tombstones', { signal });
  return new Set(rows.map((row) => runKey(row.project, row.run)));
}

/**
 * Remembers the largest stored index per trace, so that only indexes that are not new are looked up. Bounded: the traces used longest ago are
 * forgotten and asked for again. `learn` is called only after a block is stored.
 */
export class EntityIndex {
  readonly #limit: number;
  readonly #largest = new Map<string, Largest>();

  constructor(limit = 100_000) {
    this.#limit = limit;
  }

  /** Entities of the block that exist already. */
  async known(store: ColumnStore, candidates: readonly Candidate[], signal: AbortSignal): Promise<KnownEntities> {
    const entities = candidates.map((c) => c.entity).filter((e) => e !== null);
    await this.#load(store, entities, signal);
    const old = entities.filter((e) => e.index <= (this.#largest.get(e.traceText)?.[e.table] ?? -1));
    const found = new KnownEntities();
    for (const table of ['nodes', 'calls'] as const) {
      const keys = [...new Set(old.filter((e) => e.table === table).map((e) => tupleLiteral([...e.trace, e.index])))];
      for (let at = 0; at < keys.length; at += LIST_CHUNK) await lookUp(store, table, keys.slice(at, at + LIST_CHUNK), found, signal);
    }
    return found;
  }

  learn(stored: readonly Candidate[]): void {
    for (const candidate of stored) {
      const { entity } = candidate;
      if (entity === null) continue;
      const largest = this.#largest.get(entity.traceText);
      if (largest !== undefined) largest[entity.table] = Math.max(largest[entity.table], entity.index);
    }
  }

  async #load(store: ColumnStore, entities: readonly Entity[], signal: AbortSignal): Promise<void> {
    const missing = new Map<string, TraceKey>();
    let last = '';
    for (const { trace, traceText: text } of entities) {
      if (text === last) continue; // neighbours mostly are of one trace
      last = text;
      const largest = this.#largest.get(text);
      if (largest === undefined) missing.set(text, trace);
      else {
        this.#largest.delete(text); // to the young end
        this.#largest.set(text, largest);
      }
    }
    const loaded = await largestIndexes(store, [...missing.values()], signal);
    for (const [text, largest] of loaded) this.#largest.set(text, largest);
    for (const text of this.#largest.keys()) {
      if (this.#largest.size <= Math.max(this.#limit, missing.size)) break;
      this.#largest.delete(text);
    }
  }
}

type Largest = { nodes: number; calls: number };

async function largestIndexes(store: ColumnStore, traces: readonly TraceKey[], signal: AbortSignal): Promise<Map<string, Largest>> {
  const loaded = new Map<string, Largest>(traces.map((trace) => [traceText(trace), { nodes: -1, calls: -1 }]));
  for (let at = 0; at < traces.length; at += LIST_CHUNK) {
    const keys = traces.slice(at, at + LIST_CHUNK).map((t) => tupleLiteral(t)).join(','); // prettier-ignore
    const largestOf = (table: keyof Largest): string =>
      `SELECT '${table}' AS entity, project, run, rollout, trace, toUInt32(max(index)) AS largest FROM ${table} WHERE (project, run, rollout, trace) IN (${keys}) GROUP BY project, run, rollout, trace`;
    const sql = `${largestOf('nodes')} UNION ALL ${largestOf('calls')}`;
    type Row = { entity: keyof Largest; project: string; run: string; rollout: string; trace: string; largest: number };
    for (const r of await store.rows<Row>(sql, { settings: listSettings(sql.length), signal })) {
      const largest = loaded.get(traceText([r.project, r.run, r.rollout, r.trace]));
      if (largest !== undefined) largest[r.entity] = Number(r.largest);
    }
  }
  return loaded;
}

async function lookUp(
  store: ColumnStore,
  table: 'nodes' | 'calls',
  keys: readonly string[],
  found: KnownEntities,
  signal: AbortSignal,
): Promise<void> {
  const sql = `SELECT project, run, rollout, trace, index, toUInt64(min(_offset)) AS offset, argMin(hex(_hash), _offset) AS hash FROM ${table} WHERE (project, run, rollout, trace, index) IN (${keys.join(',')}) GROUP BY project, run, rollout, trace, index`;
  type Row = { project: string; run: string; rollout: string; trace: string; index: number; offset: string; hash: string };
  for (const r of await store.rows<Row>(sql, { settings: listSettings(sql.length), signal })) {
    const entity = { table, traceText: traceText([r.project, r.run, r.rollout, r.trace]), index: Number(r.index) };
    found.set(entity, { offset: Number(r.offset), hash: r.hash.toLowerCase() });
  }
}
