import { Transform } from 'node:stream';
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import { createByteReader, TruncatedError } from './byte-reader.ts';
import { cityHash128 } from './city-hash.ts';
import { decodeLz4Block, encodeLz4Literals, Lz4Error } from './lz4-block.ts';

/**
 * ClickHouse's compressed frames, which `compress=1` asks for and `decompress=1` announces: 16 bytes of CityHash128 over the rest, one byte of method,
 * the size of method, sizes and data together, the size when decompressed, the data.
 */
const CHECKSUM_BYTES = 16;
const HEADER_BYTES = 9;
const METHOD = { none: 0x02, lz4: 0x82, zstd: 0x90 } as const;
/** Clients write frames of 1 MiB; ClickHouse itself refuses more than 1 GiB. */
const MAX_FRAME_BYTES = 128 << 20;
const OUTPUT_BLOCK_BYTES = 1 << 20;

const unzstd = promisify(zstdDecompress);

export async function* decodeClickHouseFrames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const reader = createByteReader(source);
  for (
    let head = await reader.take(CHECKSUM_BYTES + HEADER_BYTES);
    head !== null;
    head = await reader.take(CHECKSUM_BYTES + HEADER_BYTES)
  ) {
    const method = head[CHECKSUM_BYTES] as number;
    const size = head.readUInt32LE(CHECKSUM_BYTES + 1) - HEADER_BYTES;
    const plainSize = head.readUInt32LE(CHECKSUM_BYTES + 5);
    if (size < 0 || size > MAX_FRAME_BYTES || plainSize > MAX_FRAME_BYTES) {
      throw new Lz4Error(`a compressed frame says ${size} and ${plainSize} bytes; at most ${MAX_FRAME_BYTES} are taken`);
    }
    const data = size === 0 ? Buffer.alloc(0) : await reader.take(size);
    if (data === null) throw new TruncatedError('the data end inside a compressed frame');
    if (!cityHash128(Buffer.concat([head.subarray(CHECKSUM_BYTES), data])).equals(head.subarray(0, CHECKSUM_BYTES))) {
      throw new Lz4Error('the checksum of a compressed frame does not match');
    }
    yield await decodeData(method, data, plainSize);
  }
}

async function decodeData(method: number, data: Buffer, plainSize: number): Promise<Buffer> {
  if (method === METHOD.none) return data;
  if (method === METHOD.zstd) return unzstd(data, { maxOutputLength: plainSize });
  if (method !== METHOD.lz4) throw new Lz4Error(`unknown compression method ${method} of a frame`);
  const plain = Buffer.allocUnsafe(plainSize);
  if (decodeLz4Block(data, plain, 0) !== plainSize) throw new Lz4Error('a compressed frame is shorter than it says');
  return plain;
}

/** LZ4 frames of literals: what readers of `compress=1` understand, without the cost of compressing for a client on the same machine. */
export function createClickHouseFrameEncoder(): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      for (let at = 0; at < chunk.length; at += OUTPUT_BLOCK_BYTES) this.push(encodeFrame(chunk.subarray(at, at + OUTPUT_BLOCK_BYTES)));
      done();
    },
  });
}

export function encodeFrame(plain: Buffer): Buffer {
  const data = encodeLz4Literals(plain);
  const frame = Buffer.allocUnsafe(CHECKSUM_BYTES + HEADER_BYTES + data.length);
  frame[CHECKSUM_BYTES] = METHOD.lz4;
  frame.writeUInt32LE(data.length + HEADER_BYTES, CHECKSUM_BYTES + 1);
  frame.writeUInt32LE(plain.length, CHECKSUM_BYTES + 5);
  data.copy(frame, CHECKSUM_BYTES + HEADER_BYTES);
  cityHash128(frame.subarray(CHECKSUM_BYTES)).copy(frame);
  return frame;
}
