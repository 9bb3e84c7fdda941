import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { createZstdDecoder } from './zstd-decoder.ts';

const noise = (bytes: number): Buffer => Buffer.from(crypto.getRandomValues(new Uint8Array(Math.min(bytes, 65_536)))).subarray(0, bytes);

test('frames come back whole, one after the other and at once, also those of several chunks', async () => {
  const decoder = createZstdDecoder();
  const sources = [1, 1000, 65_536].map(noise).concat(Buffer.alloc(3_000_000, 'text '), Buffer.alloc(1024 * 1024 + 64 * 1024));
  const inflate = async (source: Buffer): Promise<void> => {
    const output = Buffer.alloc(source.length);
    assert.equal(await decoder.inflate(zstdCompressSync(source), output), source.length);
    assert.ok(output.equals(source));
  };
  for (const source of sources) await inflate(source);
  await Promise.all([...sources, ...sources].map(inflate));
  decoder.close();
});

test('a broken, cut or longer frame is told, and the next one is read', async () => {
  const decoder = createZstdDecoder();
  const source = Buffer.alloc(100_000, 'some text ');
  const frame = zstdCompressSync(source);
  const output = Buffer.alloc(source.length);
  for (let round = 0; round < 3; round++) {
    await assert.rejects(decoder.inflate(Buffer.from('no frame at all'), output));
    assert.equal(await decoder.inflate(frame, output), source.length);
    assert.notEqual(await decoder.inflate(frame.subarray(0, frame.length - 20), output), source.length);
    assert.equal(await decoder.inflate(frame, output), source.length);
    assert.equal(await decoder.inflate(frame, Buffer.alloc(10)), source.length);
    assert.equal(await decoder.inflate(frame, output), source.length);
    assert.ok(output.equals(source));
  }
  decoder.close();
});
