import assert from 'node:assert/strict';
import { test } from 'node:test';
import { constants, createZstdCompress, gzipSync, zstdCompressSync } from 'node:zlib';
import { ByteBudget } from '../../base/byte-budget.ts';
import { openBody, type BodyBuffer } from './body-buffer.ts';
import { createBufferPool } from './buffer-pool.ts';
import { openClaim } from './claim.ts';
import { encodingOf, inflate } from './inflate.ts';

const budget = new ByteBudget(1 << 30);
const target = (bytes = 1 << 20): BodyBuffer =>
  openBody(createBufferPool(0), openClaim(budget), { bytes, code: 'inflated_too_large', what: 'the body after decompression' }, null);
const text = Buffer.from('many words that come again and again. '.repeat(2000));
const pack = { gzip: (b: Uint8Array) => gzipSync(b), zstd: (b: Uint8Array) => zstdCompressSync(b) };

for (const encoding of ['gzip', 'zstd'] as const) {
  const packed = pack[encoding](text);

  test(`${encoding}: one body, and several members or frames in a row`, async () => {
    for (const copies of [1, 3]) {
      const body = target();
      await inflate(Buffer.concat(Array(copies).fill(packed)), encoding, body);
      assert.ok(body.view().equals(Buffer.concat(Array(copies).fill(text))));
    }
  });

  test(`${encoding}: cut at every byte is truncated_body`, async () => {
    for (let cut = 0; cut < packed.length; cut++) {
      await assert.rejects(inflate(packed.subarray(0, cut), encoding, target()), { code: 'truncated_body' }, `cut at ${cut}`);
    }
  });

  test(`${encoding}: garbage before, behind and inside is refused`, async () => {
    const garbage = Buffer.from('this is not compressed at all');
    await assert.rejects(inflate(garbage, encoding, target()), { code: 'broken_compression' });
    await assert.rejects(inflate(Buffer.concat([packed, garbage]), encoding, target()), { code: 'broken_compression' });
    const bent = Buffer.from(packed);
    bent[Math.floor(bent.length / 2)] = (bent[Math.floor(bent.length / 2)] as number) ^ 0xff;
    await assert.rejects(
      async () => {
        const body = target();
        await inflate(bent, encoding, body);
        // zstd without a checksum may decode to other bytes: then the events in it are refused
        assert.notDeepEqual(body.view(), text);
        throw Object.assign(new Error(), { code: 'broken_compression' });
      },
      { code: /broken_compression|truncated_body|inflated_too_large/ },
    );
  });

  test(`${encoding}: a bomb stops at the limit, long before it is whole`, async () => {
    const bomb = pack[encoding](Buffer.alloc(64 << 20));
    const body = target(1 << 20);
    await assert.rejects(inflate(bomb, encoding, body), { code: 'inflated_too_large', details: { limit: 1 << 20 } });
    assert.ok(body.length <= 1 << 20);
  });
}

test('zstd: a window above 8 MiB is refused', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stream = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: 27 } });
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', resolve);
  stream.write(Buffer.alloc(100_000, 1));
  stream.end(Buffer.alloc(100));
  await promise;
  await assert.rejects(inflate(Buffer.concat(chunks), 'zstd', target()), { code: 'broken_compression', message: /windowTooLarge/ });
});

test('encodings: gzip, zstd and none; anything else is named', () => {
  const value = (header?: string): unknown => {
    const result = encodingOf(header);
    return result.ok ? result.value : result.error.code;
  };
  assert.deepEqual(
    [value(), value('identity'), value('GZIP'), value('x-gzip'), value(' zstd ')],
    ['identity', 'identity', 'gzip', 'gzip', 'zstd'],
  );
  for (const header of ['br', 'deflate', 'gzip, gzip', 'gzip, zstd']) assert.equal(value(header), 'unsupported_encoding');
});
