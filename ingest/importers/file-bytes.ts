/** Files as streams of plain bytes: gzip and zstd are recognised by their first bytes, not by their name. */
import { createReadStream } from 'node:fs';
import type { Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { TapedeckError } from '../../base/errors.ts';

/** Compressed input is fed in pieces of this size, so that memory stays bounded by what one piece can inflate to. */
const PIECE_BYTES = 16 * 1024;
/** One piece of compressed input may inflate to at most this many bytes (a ratio of 16,384); real data stays far below. */
export const MAX_PIECE_INFLATED = 256 * 1024 * 1024;

export type Compression = 'none' | 'gzip' | 'zstd';

/** How a file is compressed, by its magic number (RFC 1952; RFC 8878 section 3.1.1). */
export function compressionOf(head: Uint8Array): Compression {
  if (head[0] === 0x1f && head[1] === 0x8b) return 'gzip';
  if (head[0] === 0x28 && head[1] === 0xb5 && head[2] === 0x2f && head[3] === 0xfd) return 'zstd';
  return 'none';
}

/**
 * The content of a file, decompressed, in bounded memory. `onRead` hears the bytes taken from disk, for progress. All that came before a cut is yielded
 * before the error. Errors: `not_found`, `truncated_body` (a compressed file that was cut), `broken_compression`, `inflated_too_large`, `aborted`.
 */
export async function* fileBytes(
  path: string,
  options: { onRead?: (bytes: number) => void; signal?: AbortSignal } = {},
): AsyncGenerator<Buffer> {
  let inflate: Inflate | null = null;
  let first = true;
  try {
    for await (const chunk of diskChunks(path, options.signal)) {
      if (first) inflate = inflaterFor(compressionOf(chunk));
      first = false;
      if (inflate === null) yield chunk;
      else for (let at = 0; at < chunk.length; at += PIECE_BYTES) yield* outcomeOf(inflate.write(chunk.subarray(at, at + PIECE_BYTES)));
      options.onRead?.(chunk.length);
    }
    if (inflate !== null) yield* outcomeOf(inflate.end());
  } finally {
    inflate?.close();
  }
}

/** A compressed stream as plain bytes, in bounded memory. Errors: `truncated_body`, `broken_compression` (bytes after the end too), and what `source` throws. */
export async function* inflatedBytes(source: AsyncIterable<Buffer>, compression: 'gzip' | 'zstd'): AsyncGenerator<Buffer> {
  const inflate = inflaterFor(compression) as Inflate;
  try {
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; at += PIECE_BYTES) yield* outcomeOf(inflate.write(chunk.subarray(at, at + PIECE_BYTES)));
    }
    yield* outcomeOf(inflate.end());
  } finally {
    inflate.close();
  }
}

async function* diskChunks(path: string, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024, signal })) yield chunk as Buffer;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ABORT_ERR') throw new TapedeckError('aborted', `reading ${path} was stopped`, { cause: error });
    throw new TapedeckError('not_found', `cannot read ${path}: ${code ?? 'unknown error'}`, { cause: error });
  }
}

/** What one step inflated to, and the failure that followed it, if any: the bytes before a cut are still good. */
type Step = { readonly chunks: Buffer[]; readonly failure: TapedeckError | null };
type Inflate = { write(piece: Buffer): Promise<Step>; end(): Promise<Step>; close(): void };

function inflaterFor(compression: Compression): Inflate | null {
  if (compression === 'none') return null;
  return inflateWith(compression === 'gzip' ? createGunzip() : createZstdDecompress());
}

async function* outcomeOf(step: Promise<Step>): AsyncGenerator<Buffer> {
  const { chunks, failure } = await step;
  yield* chunks;
  if (failure !== null) throw failure;
}

/** Drives a zlib stream piece by piece; what one piece inflates to is handed out before the next goes in. */
function inflateWith(stream: Transform): Inflate {
  let chunks: Buffer[] = [];
  let outBytes = 0;
  let failure: TapedeckError | null = null;
  stream.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    outBytes += chunk.length;
    if (outBytes > MAX_PIECE_INFLATED) {
      stream.destroy(new TapedeckError('inflated_too_large', `${PIECE_BYTES} compressed bytes inflate to more than ${MAX_PIECE_INFLATED}`));
    }
  });
  stream.on('error', (error) => (failure = inflateError(error)));
  const closed = new Promise<void>((resolve) => stream.once('close', resolve));
  const take = (): Step => {
    const step = { chunks, failure };
    chunks = [];
    outBytes = 0;
    return step;
  };
  return {
    write: async (piece) => {
      await Promise.race([new Promise<void>((resolve) => stream.write(piece, () => resolve())), closed]);
      return take();
    },
    end: async () => {
      stream.end();
      await closed;
      return take();
    },
    close: () => void stream.destroy(),
  };
}

function inflateError(error: Error): TapedeckError {
  if (error instanceof TapedeckError) return error;
  const { code } = error as NodeJS.ErrnoException;
  const cut = code === 'Z_BUF_ERROR' || code === 'ZSTD_error_srcSize_wrong';
  return cut
    ? new TapedeckError('truncated_body', 'the compressed file ends too early: it was cut off', { cause: error })
    : new TapedeckError('broken_compression', `the compressed data is damaged (${code ?? 'unknown'})`, { cause: error });
}
