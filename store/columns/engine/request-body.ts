import type { IncomingMessage } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { EngineRequest } from './request.ts';
import { refusal } from './wire-error.ts';

/** The body as the client meant it: content encoding undone. */
export function plainBody(message: IncomingMessage, request: EngineRequest): AsyncIterable<Buffer> {
  const decoder = decoderOf(request.contentEncoding);
  return decoder === null ? message : decoded(message, decoder, request.contentEncoding);
}

function decoderOf(encoding: string): Transform | null {
  switch (encoding.toLowerCase()) {
    case '':
    case 'identity':
      return null;
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress();
    default:
      throw refusal(
        48,
        'NOT_IMPLEMENTED',
        `Unknown Content-Encoding ${JSON.stringify(encoding)}: send gzip, zstd, br, deflate, lz4 or none`,
      );
  }
}

/** A broken or truncated stream is the client's error, and none of it counts. */
async function* decoded(source: IncomingMessage, decoder: Transform, encoding: string): AsyncGenerator<Buffer> {
  source.on('error', (error) => decoder.destroy(error));
  source.pipe(decoder);
  try {
    yield* decoder as AsyncIterable<Buffer>;
  } catch (error) {
    if (source.errored) throw source.errored;
    const why = error instanceof Error ? error.message : String(error);
    throw refusal(354, 'ZLIB_INFLATE_FAILED', `The body is not valid ${encoding}: ${why}`);
  } finally {
    decoder.destroy();
  }
}
