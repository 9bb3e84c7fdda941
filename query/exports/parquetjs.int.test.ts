/** Parquet exports read by another reader in this language, value by value: pyarrow reads them too, where Python is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ParquetReader } from 'parquetjs';
import type { Draft } from '../events-for-tests.ts';
import { readListRequest } from '../lists/list-request.ts';
import { RESOURCES } from '../lists/resources.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { rowsFormats } from './rows-format.ts';

const ENV = 'é/"\u{1f4a5}';

function rollout(id: string, reward: number | null): Draft[] {
  const ids = { run: 'run-1', rollout: id, trace: `${id}-t` };
  return [
    { type: 'rollout.started', run: 'run-1', rollout: id, data: { env: { id: ENV } } },
    { type: 'reward.assigned', ...ids, data: { scope: 'trace', name: 'x', score: reward } },
  ];
}

async function parquetOf(world: TestWorld, fields: string): Promise<Buffer> {
  const resource = RESOURCES.find((each) => each.name === 'rollouts');
  const format = rowsFormats(world.store).find((each) => each.name === 'parquet');
  assert.ok(resource !== undefined && format !== undefined);
  const list = readListRequest(resource, { project: 'default', limit: 1, fields }, {});
  const parts: Uint8Array[] = [];
  await format.write({ project: 'default', list, wanted: null }, { write: async (bytes) => void parts.push(bytes), count: () => {}, beside: async () => {} }, AbortSignal.timeout(60_000)); // prettier-ignore
  return Buffer.concat(parts);
}

test('parquetjs reads what was exported: text, 64-bit integers, NaN, the infinities and null', async () => {
  const world = await openTestWorld();
  try {
    await world.write([...rollout('a', 0.1), ...rollout('b', NaN), ...rollout('c', -Infinity), ...rollout('d', null)]);
    const reader = await ParquetReader.openBuffer(await parquetOf(world, 'rollout,env,reward,nodes'));
    const rows: Record<string, unknown>[] = [];
    const cursor = reader.getCursor();
    for (let row = await cursor.next(); row !== null; row = await cursor.next()) rows.push({ ...(row as Record<string, unknown>) });
    assert.equal(reader.getRowCount().toString(), '4');
    await reader.close();
    assert.deepEqual(rows.map((row) => [row['rollout'], row['env'], row['reward'] ?? null, String(row['nodes'])]), [['a', ENV, 0.1, '0'], ['b', ENV, NaN, '0'], ['c', ENV, -Infinity, '0'], ['d', ENV, null, '0']]); // prettier-ignore
  } finally {
    await world.close();
  }
});
