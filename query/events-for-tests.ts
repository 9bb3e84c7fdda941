/** Stores events the way the projector does, without its log: real schema, real projections, real views. */
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { uuidV7 } from '../base/uuid.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { contentHash } from '../events/content-hash.ts';
import { readEvent } from '../events/read-event.ts';
import { migrate } from '../migrations/migrate.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { createBlock } from '../store/columns/projections/block.ts';
import { ledger, NO_REASON } from '../store/columns/projections/ledger.ts';
import { project } from '../store/columns/projections/project.ts';
import { refreshSummaries } from '../store/columns/summaries.ts';
import { ensureProject } from '../store/columns/views/ensure-project.ts';

export type Draft = {
  readonly type: string;
  readonly project?: string;
  readonly run?: string;
  readonly group?: string;
  readonly rollout?: string;
  readonly trace?: string;
  readonly time?: number;
  readonly data: object;
};

export const DATABASE = 'tapedeck';
const SCHEMA = { database: DATABASE, cluster: null };
const STARTED = 1_700_000_000_000_000;

/** Brings the store to the current schema and makes the views of some projects. */
export async function prepareStore(store: ColumnStore, projects: readonly string[]): Promise<void> {
  await migrate(store, { ...SCHEMA, clock: systemClock });
  for (const name of projects) await ensureProject(store, name, SCHEMA);
}

/** A function that stores events in the order of a log of one partition. */
export function eventWriter(store: ColumnStore): (drafts: readonly Draft[]) => Promise<void> {
  let offset = 0;
  return async (drafts) => {
    const block = createBlock();
    for (const draft of drafts) {
      const slice = encodeEvent({ v: 1, id: uuidV7(systemClock, systemRandom), time: STARTED + offset, ...draft });
      const read = readEvent(slice);
      if (!read.ok) throw new Error(`${draft.type}: ${read.error.message}`);
      const stored = { event: read.value, slice, topic: 'events', partition: 0, offset: offset++, hash: contentHash(slice) } as const;
      project(stored, block);
      ledger(stored, 'stored', NO_REASON, block);
    }
    for (const table of block.tables) {
      if (table.rows > 0) await store.insertNative(`${DATABASE}.${table.name}`, table.columnNames, table.encode());
    }
    await refreshSummaries(store, block.touched, { version: offset });
  };
}
