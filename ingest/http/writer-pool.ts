import { ByteWriter } from '../../base/byte-writer.ts';

/** Writers for transcoded JSON, used again as they keep their buffers. Only writers that grew to at most `maxBytes` are kept, and few of them. */
export type WriterPool = { take(): ByteWriter; give(writer: ByteWriter): void };

const KEPT = 8;

export function createWriterPool(maxBytes: number): WriterPool {
  const free: ByteWriter[] = [];
  return {
    take: () => free.pop() ?? new ByteWriter(0),
    give(writer) {
      const bytes = writer.length;
      writer.clear();
      if (free.length < KEPT && bytes <= maxBytes / KEPT) free.push(writer);
    },
  };
}
