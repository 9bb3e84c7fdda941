/** What the store is asked about the ids of a block, over a real engine. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { systemRandom } from '../../../base/random.ts';
import { uuidV7 } from '../../../base/uuid.ts';
import { migrate } from '../../../migrations/migrate.ts';
import type { ColumnStore } from '../column-store.ts';
import { openBlock } from '../native/table-block.ts';
import { eventIds } from '../tables/event-ids.ts';
import { openTestStore, type TestStore } from '../test-store.ts';
import type { Candidate } from './classify.ts';
import type { EventName } from './known-facts.ts';
import { knownIds } from './known-state.ts';

const DATABASE = 'tapedeck';
/** More than one statement takes. */
const STORED = 12_000;
const PARTITIONS = 4;

let engine: TestStore;
let store: ColumnStore;
const ids = Array.from({ length: STORED }, () => uuidV7(systemClock, systemRandom));
const hashOf = (i: number): string => i.toString(16).padStart(32, 'a');

before(async () => {
  engine = await openTestStore();
  await migrate(engine.connect('default'), { database: DATABASE, cluster: null, compression: 'by part size', clock: systemClock });
  store = engine.connect(DATABASE);
  const block = openBlock(eventIds);
  for (const [i, id] of ids.entries())
    block.add({ id, project: 'default', hash: Buffer.from(hashOf(i), 'hex'), _partition: i % PARTITIONS, _offset: i });
  // the same ids once more, at a later offset: the first counts
  for (const [i, id] of ids.entries())
    block.add({ id, project: 'default', hash: Buffer.alloc(16, 1), _partition: i % PARTITIONS, _offset: STORED + i });
  await store.insertNative(block.name, block.columnNames, block.pieces());
});
after(() => engine.close());

function candidate(id: string): Candidate {
  return { id, type: 'node.appended', project: 'default', run: 'r', rollout: 'o', partition: 0, offset: 0, eventHash: '', dataHash: '', entity: null };
} // prettier-ignore

const named = (partition: number, id: string): EventName => ({ partition, project: 'default', id });

test('every stored id is found with its first place and its hash, no other, however many are asked for', async () => {
  for (const asked of [0, 1, 1_999, 2_000, 2_001, STORED]) {
    const fresh = Array.from({ length: asked }, () => uuidV7(systemClock, systemRandom));
    const mixed = ids.slice(0, asked).flatMap((id, i) => [candidate(id), candidate(fresh[i] as string), candidate(id)]);
    const found = await knownIds(store, mixed, AbortSignal.timeout(120_000));
    for (let i = 0; i < asked; i++) {
      assert.deepEqual(found.get(named(i % PARTITIONS, ids[i] as string)), { offset: i, hash: hashOf(i) });
      assert.equal(found.get(named((i + 1) % PARTITIONS, ids[i] as string)), undefined);
      for (let partition = 0; partition < PARTITIONS; partition++) assert.equal(found.get(named(partition, fresh[i] as string)), undefined);
    }
  }
});
