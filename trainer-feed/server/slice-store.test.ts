/** Prepared slices: kept while somebody may read them, removed when nobody does, made again when they are gone. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { after, test } from 'node:test';
import { isTapedeckError } from '../../base/errors.ts';
import { planRequest } from '../planner/plan-request.ts';
import { rowOf } from '../planner/rows.arbitrary.ts';
import { openSliceStore, type PreparedSlice, type SliceRequest, type SliceStore } from './slice-store.ts';

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

async function store(memoryBytes: number): Promise<{ slices: SliceStore; folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'tapedeck-slices-'));
  folders.push(folder);
  return { slices: await openSliceStore({ directory: folder, memoryBytes, onPrepared: () => {} }), folder };
}

const ROWS = Array.from({ length: 12 }, (_, i) => rowOf(i, 20 + i));
const id = (n: number): string => String(n).padStart(64, '0').split('').reverse().join('');
const asked = (n: number, world = 2): SliceRequest => ({
  header: {
    feed: 'f',
    timeline: 0,
    n,
    batchId: id(n),
    algorithm: 'grpo',
    policyVersion: 0,
    counts: { nRl: 1, nCe: 1, nRefKl: 1 },
  },
  request: planRequest.parse({ world, maxTokens: 64 }),
  extra: [],
});
const rows = async () => ROWS;

async function prepared(slices: SliceStore, n: number, world = 2): Promise<readonly PreparedSlice[]> {
  const batch = await slices.prepare(asked(n, world), rows);
  assert.ok(batch !== null);
  return batch.slices;
}

test('slices of a batch of long ago are prepared while those of others are removed, and can be read then', async () => {
  for (const memoryBytes of [0, 1 << 24]) {
    const { slices } = await store(memoryBytes);
    let over = false;
    const preparing = prepared(slices, 1, 8).finally(() => (over = true));
    while (!over) {
      await slices.keep(new Set([id(7), id(8)]));
      await setImmediate();
    }
    await slices.keep(new Set([id(7), id(8)]));
    for (const slice of await preparing) assert.equal((await slices.read(slice)).length, slice.bytes);
  }
});

test('of batches not in use those asked for last stay; one that is gone says so, and is made again, byte for byte', async () => {
  const { slices, folder } = await store(0);
  const first = await prepared(slices, 1);
  const before = await slices.read(first[0] as PreparedSlice);
  for (let n = 2; n <= 6; n++) await prepared(slices, n);
  await prepared(slices, 2); // asked for again
  await slices.keep(new Set([id(6)]));
  assert.equal(readdirSync(folder).length, 5, 'the batch in use and four others');
  await assert.rejects(slices.read(first[0] as PreparedSlice), (error) => isTapedeckError(error, 'cache_corrupt') && /ask again/.test(error.message)); // prettier-ignore
  const again = await prepared(slices, 1);
  assert.deepEqual(await slices.read(again[0] as PreparedSlice), before);
  assert.deepEqual(await slices.read((await prepared(slices, 2))[1] as PreparedSlice).then((bytes) => bytes.length > 0), true);
});

test('a damaged file is refused by name and made again; rows that are not at hand are asked for again', async () => {
  const { slices } = await store(0);
  const [slice] = (await prepared(slices, 1)) as [PreparedSlice];
  writeFileSync(slice.path, 'nonsense');
  await assert.rejects(slices.read(slice), (error) => isTapedeckError(error, 'cache_corrupt') && /damaged/.test(error.message));
  const [anew] = (await prepared(slices, 1)) as [PreparedSlice];
  assert.equal((await slices.read(anew)).length, slice.bytes);
  assert.equal(await slices.prepare(asked(2), async () => null), null);
  assert.ok((await slices.prepare(asked(2), rows)) !== null);
  const tooLong = { ...asked(3), request: planRequest.parse({ world: 1, maxTokens: 8 }) };
  await assert.rejects(slices.prepare(tooLong, rows), (error) => isTapedeckError(error, 'row_exceeds_max_tokens'));
});
