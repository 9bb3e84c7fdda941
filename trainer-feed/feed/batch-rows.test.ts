import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rowOf } from '../planner/rows.arbitrary.ts';
import { openBatchRows, type BatchRows } from './batch-rows.ts';

async function inFolder(work: (batches: BatchRows, directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-batch-rows-'));
  try {
    await work(await openBatchRows(directory), directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

const name = (n: number): { n: number; batchId: string } => ({ n, batchId: String(n).repeat(64) });
const rows = [rowOf(1, 20), rowOf(2, 30)];

test('rows that were only held are there until they are forgotten, rows that were put come back from the disk', () =>
  inFolder(async (batches, directory) => {
    batches.hold(name(1), rows);
    assert.equal(await batches.get(name(1)), rows);
    await batches.put(name(2), rows);
    await batches.keep([name(2)], 0);
    assert.equal(await batches.get(name(1)), null);
    const read = await (await openBatchRows(directory)).get(name(2));
    assert.deepEqual(read?.map(({ rowId }) => rowId), rows.map(({ rowId }) => rowId)); // prettier-ignore
  }));

test('forgetting takes nothing away that is on its way to the disk, wanted or not; what a killed process left half written goes', () =>
  inFolder(async (batches, directory) => {
    await writeFile(join(directory, 'left.batch.part'), 'half');
    const writes = [batches.put(name(1), rows), batches.put(name(2), rows), batches.put(name(1), rows)];
    while (readdirSync(directory).length < 3) await new Promise((resolve) => setImmediate(resolve));
    await batches.keep([name(1)], 1);
    await Promise.all(writes);
    assert.deepEqual(readdirSync(directory).filter((file) => file.endsWith('.part')), []); // prettier-ignore
    assert.notEqual(await batches.get(name(1)), null);
    await batches.keep([name(1)], 1);
    assert.equal(readdirSync(directory).length, 1);
  }));

test('whoever reads batches of long ago, however many, finds the last few at hand and leaves no more behind; those in use stay', () =>
  inFolder(async (batches, directory) => {
    batches.hold(name(1), rows);
    await batches.put(name(1), rows);
    await batches.put(name(2), [rowOf(3, 10)]);
    await batches.keep([name(1), name(2)], 1);
    const known = await batches.get(name(2));
    for (const n of [3, 4, 5, 6, 7]) await batches.put(name(n), rows); // made again from the log
    assert.equal(await batches.get(name(1)), rows, 'in use: in memory');
    const again = await batches.get(name(2));
    assert.deepEqual(again, known, 'wanted: on disk');
    assert.notEqual(again, known, 'and no longer in memory');
    assert.deepEqual([await batches.get(name(3)), await batches.get(name(5))], [null, null]);
    assert.notEqual(await batches.get(name(7)), null);
    assert.equal(readdirSync(directory).length, 4, 'the two that are wanted and the last two beside them');
    await batches.keep([name(2), name(7)], 1);
    await batches.put(name(8), rows);
    assert.notEqual(await batches.get(name(7)), null);
    assert.equal(readdirSync(directory).length, 3);
  }));
