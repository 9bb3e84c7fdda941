import type { IncomingMessage } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import { isTapedeckError } from '../../../base/errors.ts';
import { decodeClickHouseFrames } from './clickhouse-frames.ts';
import { decodeLz4Frames } from './lz4-frame.ts';
import type { EngineRequest } from './request.ts';
import { refusal } from './wire-error.ts';

/** The body as the client meant it: the content encoding undone, then ClickHouse's own frames if the URL announces them. */
export function plainBody(message: IncomingMessage, request: EngineRequest): AsyncIterable<Uint8Array> {
  const encoding = request.contentEncoding.toLowerCase();
  const body = encoding === '' || encoding === 'identity' ? message : named(decodedBody(message, encoding), message, `valid ${encoding}`);
  return request.sendsFrames ? named(decodeClickHouseFrames(body), message, 'made of compressed frames') : body;
}

function decodedBody(message: IncomingMessage, encoding: string): AsyncIterable<Uint8Array> {
  if (encoding === 'lz4') return decodeLz4Frames(message);
  const decoder = decoderOf(encoding);
  message.on('error', (error) => decoder.destroy(error));
  return message.pipe(decoder) as AsyncIterable<Uint8Array>;
}

function decoderOf(encoding: string): Transform {
  switch (encoding) {
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

/** A broken or truncated stream is the client's error, named; a connection that breaks stays what it is. */
async function* named(body: AsyncIterable<Uint8Array>, message: IncomingMessage, what: string): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    if (message.errored || isTapedeckError(error)) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw refusal(271, 'CANNOT_DECOMPRESS', `The body is not ${what}: ${why}`);
  }
}
