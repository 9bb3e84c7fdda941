/** Takes exact numbers of bytes from chunks of any size. */
export type ByteReader = {
  /** The next `size` bytes; null when the source has ended before the first of them, an error when it ends inside. */
  take(size: number): Promise<Buffer | null>;
};

export class TruncatedError extends Error {}

export function createByteReader(source: AsyncIterable<Uint8Array>): ByteReader {
  const chunks = source[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  return {
    async take(size) {
      const parts = [held];
      let have = held.length;
      while (have < size) {
        const next = await chunks.next();
        if (next.done === true) {
          if (have === 0) return null;
          throw new TruncatedError(`the data end ${size - have} bytes too early`);
        }
        const chunk = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
        parts.push(chunk);
        have += chunk.length;
      }
      const all = parts.length === 1 ? held : Buffer.concat(parts, have);
      held = all.subarray(size);
      return all.subarray(0, size);
    },
  };
}
