/** The projector over a real log and a real engine: what becomes of duplicates, conflicts, poison, unreadable records and deleted runs. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { systemRandom } from '../../../base/random.ts';
import { uuidV7 } from '../../../base/uuid.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import { migrate } from '../../../migrations/migrate.ts';
import { openEmbeddedLog } from '../../log/embedded-log.ts';
import type { EventLog } from '../../log/event-log.ts';
import { runAudit } from '../audit/audit.ts';
import type { ColumnStore } from '../column-store.ts';
import { openTestStore, type TestStore } from '../test-store.ts';
import { AfterBlock } from './after-block.ts';
import { Projector, type ProjectorOptions } from './projector.ts';

const DATABASE = 'tapedeck';
const PROJECTS = { database: DATABASE, cluster: null };
const IDS = { v: 1, project: 'default', time: 1_790_000_000_000_000 };

let engine: TestStore;
let store: ColumnStore;
let views: ColumnStore;
let log: EventLog;
let directory: string;

const id = (): string => uuidV7(systemClock, systemRandom);

function node(over: { id?: string; run?: string; rollout?: string; index?: number; role?: string; content?: string }): object {
  const { run = 'r', rollout = 'o', index = 0, role = 'user', content = 'hello' } = over;
  const data = { index, parent: null, role, message: { role, content }, sampled: false };
  return { ...IDS, id: over.id ?? id(), type: 'node.appended', run, rollout, trace: `${rollout}-t`, data };
}

function reward(rollout: string, score: number | null, eventId = id()): object {
  return {
    ...IDS,
    id: eventId,
    type: 'reward.assigned',
    run: 'r',
    rollout,
    trace: `${rollout}-t`,
    data: { scope: 'trace', name: 'correct', score },
  };
}

async function append(...events: (object | Uint8Array)[]): Promise<number> {
  const records = events.map((event) => ({ key: new Uint8Array(), value: event instanceof Uint8Array ? event : encodeEvent(event) }));
  return (await log.append(0, records)).first;
}

/** Projects everything that is in the log, in a projector that knows nothing from before. */
async function project(over: Partial<ProjectorOptions> = {}): Promise<void> {
  const afterBlock = new AfterBlock({ store, topic: 'events', clock: systemClock, projects: PROJECTS });
  const options: ProjectorOptions = {
    log, topic: 'events', store, fetchBlob: async () => new Uint8Array(), clock: systemClock, random: systemRandom,
    blockBytes: 8 << 20, blockEvents: 10_000, blockWaitMs: 0, after: afterBlock, ...over,
  }; // prettier-ignore
  const ends = (await log.positions()).map(({ end }) => end);
  await new Projector(options).run(AbortSignal.timeout(120_000), ends);
  await afterBlock.idle(AbortSignal.timeout(60_000));
}

async function statuses(from: number): Promise<string[]> {
  const rows = await store.rows<{ status: string }>(
    'SELECT status FROM log_index FINAL WHERE _partition = 0 AND _offset >= {from:UInt64} ORDER BY _offset',
    { params: { from } },
  );
  return rows.map((row) => row.status);
}

describe('projector', () => {
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tapedeck-projector-'));
    engine = await openTestStore();
    await migrate(engine.connect('default'), { ...PROJECTS, clock: systemClock });
    store = engine.connect(DATABASE);
    views = engine.connect('default');
    log = await openEmbeddedLog({
      directory,
      topic: 'events',
      partitions: 2,
      mode: 'write',
      maxRecordBytes: 1 << 20,
      compression: 'none',
      clock: systemClock,
    });
  });
  after(async () => {
    await log.close();
    await engine.close();
    await rm(directory, { recursive: true, force: true });
  });

  test('stores events once, whatever is sent again, in this block and in a later one', async () => {
    const events = [node({ rollout: 'once', index: 0 }), node({ rollout: 'once', index: 1 })];
    const from = await append(...events, ...events);
    await project();
    await append(...events);
    await project();
    assert.deepEqual(await statuses(from), ['stored', 'stored', 'duplicate', 'duplicate', 'duplicate', 'duplicate']);
  });

  test('a duplicate that arrives after a correction does not undo it', async () => {
    const first = reward('corrected', 0);
    await append(first, reward('corrected', 1));
    await project();
    await append(first);
    await project();
    const rows = await views.rows<{ score: number }>("SELECT score FROM p_default.rewards WHERE rollout = 'corrected'");
    assert.deepEqual(rows, [{ score: 1 }]);
  });

  test('a conflict keeps the first and dead-letters the second, by event id and by entity', async () => {
    const same = id();
    const from = await append(
      node({ rollout: 'clash', id: same, content: 'first' }),
      node({ rollout: 'clash', id: same, content: 'second' }),
      node({ rollout: 'clash', content: 'third' }),
      node({ rollout: 'clash', content: 'first' }),
    );
    await project();
    assert.deepEqual(await statuses(from), ['stored', 'conflict', 'conflict', 'duplicate']);
    const kept = await views.rows<{ text: string }>("SELECT text FROM p_default.nodes WHERE rollout = 'clash'");
    assert.deepEqual(kept, [{ text: 'first' }]);
    const letters = await store.rows<{ reason: string }>("SELECT reason FROM dead_letters FINAL WHERE rollout = 'clash' ORDER BY _offset");
    assert.deepEqual(letters.map((l) => l.reason), ['id_reused', 'entity_conflict']); // prettier-ignore
    await append(node({ rollout: 'clash', content: 'fourth' }));
    await project();
    assert.deepEqual((await statuses(from)).at(-1), 'conflict', 'found in a later block too');
  });

  test('an id of one project takes nothing from another that uses it too, in one block and in a later one', async () => {
    const same = id();
    const stranger = { ...reward('theirs', 0.25, same), project: 'stranger' };
    const from = await append(stranger, reward('ours', 0.5, same));
    await project();
    await append(reward('ours', 0.5, same), stranger, reward('ours', 0.75, same));
    await project();
    assert.deepEqual(await statuses(from), ['stored', 'stored', 'duplicate', 'duplicate', 'conflict']);
    await append({ ...reward('third', 1, same), project: 'third' });
    await project();
    assert.equal((await statuses(from)).at(-1), 'stored');
    const scores = (name: string): Promise<{ score: number }[]> => views.rows(`SELECT score FROM p_${name}.rewards WHERE id = '${same}'`);
    assert.deepEqual([await scores('default'), await scores('stranger'), await scores('third')], [[{ score: 0.5 }], [{ score: 0.25 }], [{ score: 1 }]]); // prettier-ignore
  });

  test('what cannot be read is dead-lettered with the reason, and the rest goes on', async () => {
    const unknown = { ...IDS, id: id(), type: 'future.event', run: 'r', data: {} };
    const from = await append(new Uint8Array([0xff, 0x00]), encodeEvent(unknown), node({ rollout: 'beside' }));
    await project();
    assert.deepEqual(await statuses(from), ['dead', 'dead', 'stored']);
    const letters = await store.rows<{ reason: string }>(
      'SELECT reason FROM dead_letters FINAL WHERE _offset >= {from:UInt64} ORDER BY _offset',
      { params: { from } },
    );
    assert.deepEqual(letters.map((l) => l.reason), ['invalid_cbor', 'unknown_type']); // prettier-ignore
  });

  test('an event the store refuses is found by bisection, and can be retried', async () => {
    await store.command("ALTER TABLE nodes ADD CONSTRAINT no_poison CHECK role != 'poison'");
    const events = Array.from({ length: 9 }, (_, i) => node({ rollout: 'bisected', index: i, role: i === 5 ? 'poison' : 'user' }));
    const from = await append(...events);
    await project();
    assert.deepEqual(await statuses(from), events.map((_, i) => (i === 5 ? 'dead' : 'stored'))); // prettier-ignore
    await store.command('ALTER TABLE nodes DROP CONSTRAINT no_poison');
    await append(events[5] as object);
    await project();
    assert.deepEqual((await statuses(from)).at(-1), 'stored', 'a retry is a new record and is judged anew');
    const [count] = await views.rows<{ n: string }>("SELECT count() AS n FROM p_default.nodes WHERE rollout = 'bisected'");
    assert.equal(Number(count?.n), 9);
  });

  test('blocks that are read ahead know what the block before them stored', async () => {
    const ids = Array.from({ length: 12 }, () => id());
    const events = ids.map((eventId, i) => node({ rollout: 'ahead', id: eventId, index: i, content: `${i}` }));
    // each event again right behind itself, then its entity under another id, equal and not equal
    const log = events.flatMap((event, i) => [
      event,
      event,
      node({ rollout: 'ahead', index: i, content: `${i}` }),
      node({ rollout: 'ahead', index: i, content: 'other' }),
    ]);
    const from = await append(...log);
    await project({ blockEvents: 2 });
    assert.deepEqual(await statuses(from), events.flatMap(() => ['stored', 'duplicate', 'duplicate', 'conflict'])); // prettier-ignore
  });

  test('a crash between tables is a block done again: nothing is doubled', async () => {
    const from = await append(node({ rollout: 'redone' }), reward('redone', 1));
    const crash = new Error('crash');
    let tables = 0;
    await assert.rejects(
      project({
        reached: () => {
          if (++tables === 2) throw crash;
        },
      }),
    );
    assert.deepEqual(await statuses(from), [], 'the ledger is written last');
    await project();
    assert.deepEqual(await statuses(from), ['stored', 'stored']);
    const [count] = await views.rows<{ n: string }>("SELECT count() AS n FROM p_default.rewards WHERE rollout = 'redone'");
    assert.equal(Number(count?.n), 1);
  });

  test('events of a deleted run never come back', async () => {
    const early = node({ run: 'gone', rollout: 'gone-1' });
    const tombstone = { ...IDS, id: id(), type: 'run.deleted', run: 'gone', data: { reason: 'test' } };
    const from = await append(early);
    await project();
    await append(tombstone, early, node({ run: 'gone', rollout: 'gone-2' }));
    await project();
    assert.deepEqual(await statuses(from), ['deleted', 'stored', 'deleted', 'deleted']);
    for (const view of ['nodes', 'traces', 'rollouts', 'events']) {
      const hidden = view === 'events' ? "AND type != 'run.deleted'" : '';
      const rows = await views.rows(`SELECT 1 AS one FROM p_default.${view} WHERE run = 'gone' ${hidden}`);
      assert.deepEqual(rows, [], view);
    }
  });

  test('the audit explains every offset', async () => {
    const report = await runAudit([{ topic: 'events', log }], store);
    assert.deepEqual(report.problems, []);
    assert.equal(report.lag, 0);
    await store.command('DELETE FROM log_index WHERE _partition = 0 AND _offset = 1 SETTINGS lightweight_deletes_sync = 1');
    const broken = await runAudit([{ topic: 'events', log }], store);
    assert.equal(broken.ok, false, 'a missing offset is a problem');
    assert.match(broken.problems.join(), /events\/0: 1 offsets/);
  });
});
