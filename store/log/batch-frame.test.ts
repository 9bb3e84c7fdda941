import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { isTapedeckError } from '../../base/errors.ts';
import { createBatchDecoder, createBatchEncoder } from './batch-frame.ts';
import type { EncodedBatch, LogCompression } from './batch-frame.ts';
import type { LogRecord } from './event-log.ts';

const MODES: readonly LogCompression[] = ['none', 'fast', 'zstd'];

const encoders = { none: createBatchEncoder('none'), fast: createBatchEncoder('fast'), zstd: createBatchEncoder('zstd') };
const decoder = createBatchDecoder();
after(() => {
  decoder.close();
  for (const encoder of Object.values(encoders)) encoder.close();
});

function encodeBatches(list: readonly LogRecord[], compression: LogCompression): Promise<EncodedBatch[]> {
  return encoders[compression].encode(list);
}

const records = fc.array(
  fc.record({
    key: fc.uint8Array({ maxLength: 20 }),
    value: fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.integer({ min: 0, max: 40_000 }).map((length) => new Uint8Array(length).fill(length)),
    ),
  }),
  { minLength: 1, maxLength: 30 },
);

async function decodeAll(encoded: Awaited<ReturnType<typeof encodeBatches>>): Promise<LogRecord[]> {
  const decoded = await Promise.all(encoded.map(({ bytes, count, seal }) => decoder.decode(bytes, count, seal)));
  return decoded.flatMap(({ records }) => records);
}

const asText = (list: readonly LogRecord[]): string[][] =>
  list.map(({ key, value }) => [Buffer.from(key).toString('hex'), Buffer.from(value).toString('hex')]);

test('any records come back, compressed or not', async () => {
  await fc.assert(
    fc.asyncProperty(records, fc.constantFrom(...MODES), async (list, compression) => {
      assert.deepEqual(asText(await decodeAll(await encodeBatches(list, compression))), asText(list));
    }),
  );
});

test('a long append becomes several values of about a megabyte, cut between records', async () => {
  const list = Array.from({ length: 50 }, (_, i) => ({ key: Buffer.from(`${i}`), value: Buffer.alloc(100_000, i) }));
  const encoded = await encodeBatches(list, 'none');
  assert.ok(encoded.length >= 5);
  for (const { bytes } of encoded) assert.ok(bytes.length <= 1024 * 1024);
  assert.deepEqual(asText(await decodeAll(encoded)), asText(list));
});

test('appends that are encoded at the same time do not get into each other', async () => {
  const lists = Array.from({ length: 20 }, (_, i) => [{ key: Buffer.from(`${i}`), value: Buffer.alloc(50_000 + i * 9000, `${i} `) }]);
  const encoded = await Promise.all(lists.map(async (list) => encodeBatches(list, 'fast')));
  for (const [i, batch] of encoded.entries()) assert.deepEqual(asText(await decodeAll(batch)), asText(lists[i] as LogRecord[]));
});

test('zeros shrink, noise is stored as it is', async () => {
  const size = async (value: Uint8Array): Promise<number> =>
    (await encodeBatches([{ key: value.subarray(0, 3), value }], 'fast'))[0]?.bytes.length ?? 0;
  assert.ok((await size(new Uint8Array(100_000))) < 1000);
  const noise = crypto.getRandomValues(new Uint8Array(65_536));
  assert.ok((await size(noise)) < 65_536 + 64);
});

test('any changed byte of a stored value is found', async () => {
  const list = [{ key: Buffer.from('key'), value: Buffer.alloc(20_000, 'text ') }];
  for (const compression of MODES) {
    const [stored] = await encodeBatches(list, compression);
    const { bytes, count, seal } = stored as EncodedBatch;
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const damaged = Buffer.from(bytes);
        damaged[at] = (damaged[at] as number) ^ change;
        await assert.rejects(decoder.decode(damaged, count, seal), (error) => isTapedeckError(error, 'log_corrupt'));
      }),
      { numRuns: 60 },
    );
    await assert.rejects(decoder.decode(bytes.subarray(0, 5), count, seal), (error) => isTapedeckError(error, 'log_corrupt'));
  }
});

test('memory that was given back is used again, without a trace of what was in it', async () => {
  const first = await encodeBatches([{ key: Buffer.from('a'), value: Buffer.alloc(200_000, 1) }], 'none');
  const memory = first[0]?.bytes.buffer;
  first[0]?.release();
  const list = [{ key: Buffer.from('b'), value: Buffer.alloc(150_000, 2) }];
  const second = await encodeBatches(list, 'none');
  assert.equal(second[0]?.bytes.buffer, memory);
  assert.deepEqual(asText(await decodeAll(second)), asText(list));
  const third = await encodeBatches([{ key: Buffer.from('c'), value: Buffer.alloc(150_000, 3) }], 'none');
  assert.notEqual(third[0]?.bytes.buffer, memory, 'memory in use is not given out');
});
