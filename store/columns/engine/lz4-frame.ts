import { Transform } from 'node:stream';
import { createByteReader, TruncatedError } from './byte-reader.ts';
import { decodeLz4Block, Lz4Error } from './lz4-block.ts';

/** LZ4 frames (format: lz4_Frame_format.md of the LZ4 project), the content encoding `lz4`. Checksums of the content are not verified: the connection does that. */

const MAGIC = 0x184d2204;
const FIRST_SKIPPABLE = 0x184d2a50;
const HISTORY_BYTES = 64 * 1024;
const BLOCK_SIZES: Readonly<Record<number, number>> = { 4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20 };
const STORED = 0x8000_0000;

/** Version 1, independent blocks of up to 4 MiB, no checksums; the last byte is the header's own checksum. */
const HEADER = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73]);
const OUTPUT_BLOCK_BYTES = 4 << 20;

export async function* decodeLz4Frames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const reader = createByteReader(source);
  const need = async (size: number): Promise<Buffer> => {
    const bytes = await reader.take(size);
    if (bytes === null) throw new TruncatedError('the data end inside a frame');
    return bytes;
  };
  for (let first = await reader.take(4); first !== null; first = await reader.take(4)) {
    const magic = first.readUInt32LE(0);
    if ((magic & 0xffff_fff0) >>> 0 === FIRST_SKIPPABLE) {
      await need((await need(4)).readUInt32LE(0));
      continue;
    }
    if (magic !== MAGIC) throw new Lz4Error('not an LZ4 frame');
    yield* decodeFrame(need);
  }
}

async function* decodeFrame(need: (size: number) => Promise<Buffer>): AsyncGenerator<Buffer> {
  const [flags, descriptor] = (await need(2)) as unknown as [number, number];
  const maxBlock = BLOCK_SIZES[(descriptor >> 4) & 7];
  if (flags >> 6 !== 1 || maxBlock === undefined) throw new Lz4Error('unknown version or block size of an LZ4 frame');
  const isIndependent = (flags & 0x20) !== 0;
  const hasBlockChecksum = (flags & 0x10) !== 0;
  // Content size (8 bytes), dictionary id (4 bytes), header checksum (1 byte).
  await need(((flags & 0x08) !== 0 ? 8 : 0) + ((flags & 0x01) !== 0 ? 4 : 0) + 1);
  let history: Buffer = Buffer.alloc(0);
  for (;;) {
    const size = (await need(4)).readUInt32LE(0);
    if (size === 0) break;
    const isStored = size >= STORED;
    const length = isStored ? size - STORED : size;
    if (length > maxBlock) throw new Lz4Error('a block is larger than its frame allows');
    const block = await need(length);
    if (hasBlockChecksum) await need(4);
    const target = Buffer.allocUnsafe(history.length + (isStored ? length : maxBlock));
    target.set(history);
    const end = isStored ? history.length + block.copy(target, history.length) : decodeLz4Block(block, target, history.length);
    yield target.subarray(history.length, end);
    if (!isIndependent) history = target.subarray(Math.max(0, end - HISTORY_BYTES), end);
  }
  if ((flags & 0x04) !== 0) await need(4);
}

/** One frame of stored blocks: valid for every reader, at the cost of a copy. */
export function createLz4FrameEncoder(): Transform {
  let isStarted = false;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (!isStarted) this.push(HEADER);
      isStarted = true;
      for (let at = 0; at < chunk.length; at += OUTPUT_BLOCK_BYTES) {
        const block = chunk.subarray(at, at + OUTPUT_BLOCK_BYTES);
        const size = Buffer.allocUnsafe(4);
        size.writeUInt32LE(STORED + block.length);
        this.push(size);
        this.push(block);
      }
      done();
    },
    flush(done) {
      if (!isStarted) this.push(HEADER);
      this.push(Buffer.alloc(4));
      done();
    },
  });
}
