import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { seededRandom } from '../../base/random.ts';
import { createBatchEncoder } from './batch-frame.ts';
import { createBatchReader } from './batch-reader.ts';
import { openEmbeddedLog } from './embedded-log.ts';
import type { LogChunk } from './event-log.ts';
import { openDatabase } from './log-database.ts';

async function inFolder(use: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-reader-'));
  try {
    await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const record = (text: string): { key: Uint8Array; value: Uint8Array } => ({ key: Buffer.from('k'), value: Buffer.from(text) });

test('a batch that is committed but not acknowledged yet is beyond the end: it is read later, once', () =>
  inFolder(async (directory) => {
    const database = openDatabase(directory, 'write');
    const encoder = createBatchEncoder('none');
    const batch = async (base: number, texts: readonly string[]) => {
      const [{ count, seal, bytes }] = (await encoder.encode(texts.map(record))) as [Awaited<ReturnType<typeof encoder.encode>>[number]];
      return { place: { partition: 0, base, count, seal }, bytes };
    };
    await database.commit([await batch(0, ['a', 'b']), await batch(2, ['c', 'd', 'e'])]);
    const reader = createBatchReader(database);
    const read = async (from: number, end: number): Promise<unknown> => {
      const chunk = await reader.read(0, from, end, 1 << 20);
      return [chunk.records.map(({ value }) => Buffer.from(value).toString()).join(''), chunk.next, chunk.end];
    };
    assert.deepEqual(await read(0, 2), ['ab', 2, 2]);
    assert.deepEqual(await read(2, 2), ['', 2, 2]);
    assert.deepEqual(await read(1, 5), ['bcde', 5, 5]);
    encoder.close();
    await database.close();
  }));

test('memory that a chunk gave back is used again only when no other chunk lies in it', () =>
  inFolder(async (directory) => {
    const log = await openEmbeddedLog({
      directory,
      topic: 'events',
      partitions: 1,
      mode: 'write',
      maxRecordBytes: 200_000,
      compression: 'zstd',
      clock: systemClock,
    });
    const text = (n: number): string => `${n} `.repeat(20_000).slice(0, 20_000);
    for (let n = 0; n < 40; n += 10)
      await log.append(
        0,
        Array.from({ length: 10 }, (_, i) => record(text(n + i))),
      );
    const all = (chunk: LogChunk): string[] => chunk.records.map(({ value }) => Buffer.from(value).toString());
    const random = seededRandom(7);
    const held: { from: number; chunk: LogChunk }[] = [];
    const check = ({ from, chunk }: (typeof held)[number]): void => {
      assert.deepEqual(all(chunk), chunk.records.map((_, i) => text(from + i))); // prettier-ignore
    };
    for (let round = 0; round < 300; round++) {
      const from = Math.floor(random.next() * 40);
      const chunk = await log.read(0, from, { maxBytes: 20_000 + random.next() * 300_000 });
      held.push({ from, chunk });
      for (const each of held) check(each);
      const gone = held.splice(Math.floor(random.next() * held.length), random.next() < 0.7 ? 1 : 0);
      for (const each of gone) each.chunk.release?.();
      for (const each of gone) if (random.next() < 0.2) each.chunk.release?.();
      if (held.length > 6) held.shift(); // never released
    }
    await log.close();
  }));

test('a reader in the writing process follows appends without ever being ahead of the known end', () =>
  inFolder(async (directory) => {
    const log = await openEmbeddedLog({
      directory,
      topic: 'events',
      partitions: 1,
      mode: 'write',
      maxRecordBytes: 1000,
      compression: 'none',
      clock: systemClock,
    });
    const total = 3_000;
    const writing = (async () => {
      for (let n = 0; n < total; n += 10)
        await log.append(
          0,
          Array.from({ length: 10 }, (_, i) => record(String(n + i))),
        );
    })();
    const seen: string[] = [];
    for (let from = 0; from < total;) {
      const chunk = await log.read(0, from, { maxBytes: 1 << 20, waitMs: 1_000 });
      assert.ok(chunk.next <= chunk.end, `next ${chunk.next}, end ${chunk.end}`);
      seen.push(...chunk.records.map(({ value }) => Buffer.from(value).toString()));
      from = chunk.next;
    }
    await writing;
    assert.deepEqual(
      seen,
      Array.from({ length: total }, (_, n) => String(n)),
    );
    await log.close();
  }));
