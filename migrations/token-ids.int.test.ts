/** Token ids stored before and after 004_token_ids_by_bits.sql are the same ids, also once their parts are merged. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../base/clock.ts';
import { openTestStore } from '../store/columns/test-store.ts';
import { readMigrations } from './files.ts';
import { migrate } from './migrate.ts';
import { renderStatements } from './render.ts';

const TARGET = { database: 'tapedeck', cluster: null, compression: 'by part size' } as const;
/** What cuts well, what cuts not at all, and every edge of 32 bits; blocks of 64 are what the codec cuts. */
const ids = fc.oneof(
  fc.array(fc.nat(200_000), { maxLength: 300, size: 'max' }),
  fc.array(fc.integer({ min: 0, max: 0xff_ff_ff_ff }), { maxLength: 300, size: 'max' }),
  fc.array(fc.constantFrom(0, 1, 0x7f_ff_ff_ff, 0x80_00_00_00, 0xff_ff_ff_ff), { maxLength: 130, size: 'max' }),
);

test('token ids survive the change of their codec and the merge behind it', async () => {
  const engine = await openTestStore();
  try {
    await migrate(engine.connect('default'), { ...TARGET, clock: systemClock });
    const store = engine.connect('tapedeck');
    const [change] = readMigrations().filter(({ version }) => version === 4);
    const statements = renderStatements(change?.sql ?? '', TARGET);
    assert.equal(statements.length, 1);
    const read = async (): Promise<number[][]> => {
      const rows = await store.rows<{ token_ids: number[] }>('SELECT token_ids FROM node_payloads FINAL ORDER BY `index`');
      return rows.map((row) => row.token_ids);
    };
    const insert = async (from: number, streams: readonly number[][]): Promise<void> => {
      const values = streams.map((stream, i) => `('p', 'r', 'o', 't', ${from + i}, [${stream.join(',')}])`).join(',');
      if (values === '') return;
      await store.command(`INSERT INTO node_payloads (project, run, rollout, trace, \`index\`, token_ids) VALUES ${values}`);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(ids, { maxLength: 20 }), fc.array(ids, { maxLength: 20 }), async (before, after) => {
        await store.command('TRUNCATE TABLE node_payloads');
        await store.command('ALTER TABLE node_payloads MODIFY COLUMN token_ids REMOVE CODEC');
        await insert(0, before);
        for (const statement of statements) await store.command(statement);
        await insert(before.length, after);
        const all = [...before, ...after];
        assert.deepEqual(await read(), all);
        await store.command('OPTIMIZE TABLE node_payloads FINAL');
        assert.deepEqual(await read(), all);
      }),
      { numRuns: 25 },
    );
  } finally {
    await engine.close();
  }
});
