import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import type { Transform } from 'node:stream';
import { describe, test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { cityHash128 } from './city-hash.ts';
import { createClickHouseFrameEncoder, decodeClickHouseFrames, encodeFrame } from './clickhouse-frames.ts';
import { decodeLz4Block, encodeLz4Literals } from './lz4-block.ts';
import { createLz4FrameEncoder, decodeLz4Frames } from './lz4-frame.ts';

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

/** The bytes in chunks of `size`. */
function chunks(bytes: Buffer, size: number): Readable {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(bytes.subarray(at, at + size));
  return Readable.from(parts);
}

async function through(encoder: Transform, bytes: Buffer, size: number): Promise<Buffer> {
  return collect(chunks(bytes, size).pipe(encoder));
}

describe('CityHash128 1.0.2', () => {
  // Made with the Python package clickhouse-cityhash 1.0.2.5: byte i of n is (i*131 + n*7 + (i>>8)*17) & 255; first and second word of the hash.
  const VECTORS: [number, string, string][] = [
    [0, '3df09dfc64c09a2b', '3cb540c392e51e29'],
    [1, '8be55b379cce0e40', '5ab4744478b1cba'],
    [3, '8f7d45aae1464cfd', 'ee8c620863a55c1c'],
    [4, '9bcfd31c18d04235', 'd3b4c0bb9b41cac8'],
    [7, '6ad6ad12fbb1e1cb', '4b9af03c88eddcbd'],
    [8, 'ccde6e918e8e013f', '4440ef67eeb26a17'],
    [9, 'b8e26b30597756a7', 'e17dd1b05e175c2c'],
    [15, 'bb49ec2e501f0227', '7d766411d0fc4a9f'],
    [16, '437b3d98a6a12b63', '4d03289cac1fae88'],
    [17, 'ce9e792c2c1354ae', 'fc4e069465e3fbe'],
    [24, '79f92286af98055b', 'f0c0ab91d1193bd8'],
    [25, '3fa49f4b44db9e3', 'd75b41539dd52b2e'],
    [32, 'ce1745a42b2035c', '327f34935f7e7d46'],
    [33, 'ac43b3147a816d0c', '6b17efc007cdc302'],
    [127, '88f2d8cf3e6ee9cd', '797efcf6a14a52fd'],
    [128, '8c06019c6c83002b', '9ca1222d26d69523'],
    [143, '6b5f333c2f821b98', 'f9db5e525848c6c7'],
    [144, '805147163002463e', '948533d1c3be8005'],
    [145, 'df464b8bf85f6d07', 'c8cbd88ce10703f1'],
    [200, '9f068e5b8f0aa01f', '9fecaae8fe6fe382'],
    [256, '4d70f22bd7057fbd', 'e642e914cf8354b'],
    [271, '4cf890452ca4c2ae', '978df8ed73cb07db'],
    [272, 'b4e201e5d1642297', '3729026bb7386ecd'],
    [300, 'e5a689cca4788f13', '8f2df7731cbea8e8'],
    [1000, 'f7e597f498f89fa', '45881787ff5fd0b0'],
    [65545, 'a1c411ada07547a5', '1bca5ca35341f10'],
  ];

  test('equals the reference for every branch of the algorithm', () => {
    for (const [length, first, second] of VECTORS) {
      const data = Buffer.from(Array.from({ length }, (_, i) => (i * 131 + length * 7 + (i >> 8) * 17) & 255));
      const hash = cityHash128(data);
      assert.deepEqual([hash.readBigUInt64LE(0).toString(16), hash.readBigUInt64LE(8).toString(16)], [first, second], `${length} bytes`);
    }
  });
});

describe('LZ4 blocks', () => {
  test('literals round-trip at every length', () => {
    for (const length of [0, 1, 14, 15, 16, 269, 270, 271, 525, 70_000]) {
      const data = Buffer.alloc(length, 'abc');
      const target = Buffer.alloc(length);
      assert.equal(decodeLz4Block(encodeLz4Literals(data), target, 0), length);
      assert.deepEqual(target, data);
    }
  });

  test('garbage never writes beyond the target and never hangs', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (block) => {
        const target = Buffer.alloc(100, 7);
        const window = target.subarray(0, 64);
        try {
          assert.ok(decodeLz4Block(block, window, 0) <= 64);
        } catch (error) {
          assert.equal((error as Error).constructor.name, 'Lz4Error');
        }
        assert.ok(target.subarray(64).every((byte) => byte === 7));
      }),
    );
  });
});

describe('LZ4 frames', () => {
  // 'abcabcabcabc hello ... ' repeated, by the lz4 program with linked blocks (-9 -BD -B4): matches that overlap and reach into earlier blocks.
  const LINKED = Buffer.from(
    'BCJNGERAXiIBAAA1YWJjAwBvIGhlbGxvBgAGWXdvcmxkBgAPPQD/////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////q1BvIGhlbAoBAAAPPQD/////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////6FBsbG8gd9UAAAAPPQD//////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////4tQb3JsZCAAAAAAoIwbng==',
    'base64',
  );
  const PLAIN = Buffer.from('abcabcabcabc hello hello hello hello hello world world world '.repeat(3000));

  test('a frame of the lz4 program with linked blocks and a checksum', async () => {
    for (const size of [1, 7, 100_000])
      assert.ok((await collect(decodeLz4Frames(chunks(LINKED, size)))).equals(PLAIN), `chunks of ${size}`);
  });

  test('a truncated frame is an error at every length', async () => {
    for (let length = 1; length < LINKED.length; length += 11) {
      await assert.rejects(collect(decodeLz4Frames(chunks(LINKED.subarray(0, length), 64))));
    }
  });

  test('ours round-trips', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 3000 }), fc.integer({ min: 1, max: 500 }), async (bytes, size) => {
        const data = Buffer.from(bytes);
        const frame = await through(createLz4FrameEncoder(), data, size);
        assert.deepEqual(await collect(decodeLz4Frames(chunks(frame, size))), data);
      }),
      { numRuns: 50 },
    );
  });
});

describe('compressed frames of ClickHouse', () => {
  test('round-trip', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 3000 }), fc.integer({ min: 1, max: 500 }), async (bytes, size) => {
        const data = Buffer.from(bytes);
        const frames = await through(createClickHouseFrameEncoder(), data, size);
        assert.deepEqual(await collect(decodeClickHouseFrames(chunks(frames, size))), data);
      }),
      { numRuns: 50 },
    );
  });

  test('methods none and zstd are read', async () => {
    const plain = Buffer.from('some text '.repeat(100));
    for (const [method, data] of [
      [0x02, plain],
      [0x90, zstdCompressSync(plain)],
    ] as [number, Buffer][]) {
      const body = Buffer.alloc(9 + data.length);
      body[0] = method;
      body.writeUInt32LE(body.length, 1);
      body.writeUInt32LE(plain.length, 5);
      data.copy(body, 9);
      assert.deepEqual(await collect(decodeClickHouseFrames(chunks(Buffer.concat([cityHash128(body), body]), 50))), plain);
    }
  });

  test('one flipped bit, a cut, or a huge size is an error', async () => {
    const frame = encodeFrame(Buffer.from('hello world'));
    for (let at = 0; at < frame.length; at++) {
      const broken = Buffer.from(frame);
      broken[at] = (broken[at] as number) ^ 0x10;
      await assert.rejects(collect(decodeClickHouseFrames(chunks(broken, 1000))));
      if (at > 0) await assert.rejects(collect(decodeClickHouseFrames(chunks(frame.subarray(0, at), 1000))));
    }
  });
});
