import { constants, createZstdCompress } from 'node:zlib';
import type { ZstdCompress } from 'node:zlib';

/** Compresses one buffer at a time, off the main thread. */
export type ZstdEncoder = {
  /** Writes one whole zstd frame of `input` into `output` and returns its length, or null when it does not fit. Calls wait for one another. */
  compress(input: Uint8Array, output: Buffer): Promise<number | null>;
  close(): void;
};

const CHUNK_BYTES = 1024 * 1024 + 64 * 1024;

/**
 * One zstd context and one output buffer, used again and again: `zlib.zstdCompress` makes both anew for every call, which at our sizes costs more than the
 * compression (measured: 35 us an event, of which 11 compress; the rest is page faults and garbage collection of the megabytes).
 */
export function createZstdEncoder(level: number): ZstdEncoder {
  let stream: ZstdCompress | null = null;
  let last: Promise<unknown> = Promise.resolve();

  const compress = (input: Uint8Array, output: Buffer): Promise<number | null> =>
    new Promise((resolve, reject) => {
      stream ??= createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: level }, chunkSize: CHUNK_BYTES });
      const used = stream;
      let length = 0;
      const take = (part: Buffer): void => {
        if (length + part.length <= output.length) output.set(part, length);
        length += part.length;
      };
      const fail = (error: Error): void => {
        stream = null;
        reject(error);
      };
      used.on('data', take).once('error', fail);
      used.write(input);
      used.flush(constants.ZSTD_e_end, () => {
        used.off('data', take).off('error', fail);
        rewind(used);
        resolve(length <= output.length ? length : null);
      });
    });

  return {
    compress: (input, output) => {
      const done = last.then(() => compress(input, output));
      last = done.catch(() => {});
      return done;
    },
    close: () => stream?.close(),
  };
}

/** Its output has been copied, so the stream may fill the same memory again. Should Node rename this field, it allocates a new chunk as it always did. */
function rewind(stream: ZstdCompress): void {
  const state = stream as unknown as { _outOffset?: number };
  if (typeof state._outOffset === 'number') state._outOffset = 0;
}
