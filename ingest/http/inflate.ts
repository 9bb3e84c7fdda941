import type { Transform } from 'node:stream';
import { constants, createGunzip, createZstdDecompress } from 'node:zlib';
import { TapedeckError } from '../../base/errors.ts';
import { fail, ok, type Result } from '../../base/result.ts';
import type { BodyBuffer } from './body-buffer.ts';

export type Encoding = 'identity' | 'gzip' | 'zstd';

/** Windows above 8 MiB (what RFC 8878 asks decoders to support) are refused: the window is memory that no byte count sees. */
const ZSTD_WINDOW_LOG = 23;
const CHUNK = 256 * 1024;

export function encodingOf(header: string | undefined): Result<Encoding> {
  const name = (header ?? 'identity').trim().toLowerCase();
  if (name === '' || name === 'identity') return ok('identity');
  if (name === 'gzip' || name === 'x-gzip') return ok('gzip');
  if (name === 'zstd') return ok('zstd');
  return fail(
    'unsupported_encoding',
    `Content-Encoding ${JSON.stringify(name.slice(0, 60))} is not supported; send gzip, zstd or none`,
    'content-encoding',
  );
}

/**
 * Inflates `source` into `target`, piece by piece, so that a bomb stops at the target's limit. Several members or frames in a row are one body; anything else after
 * the end is refused. Throws `truncated_body`, `broken_compression`, and what `target.write` throws.
 */
export async function inflate(source: Uint8Array, encoding: 'gzip' | 'zstd', target: BodyBuffer): Promise<void> {
  for (let at = 0; at === 0 || at < source.length;) {
    const read = await inflateOne(source.subarray(at), encoding, target);
    if (read === 0) throw broken(encoding, 'bytes after the end');
    at += read;
  }
}

/** Inflates what one decompressor takes (zstd ends after a frame) and says how many bytes of `source` that were. */
function inflateOne(source: Uint8Array, encoding: 'gzip' | 'zstd', target: BodyBuffer): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const inflater: Transform & { readonly bytesWritten: number } =
    encoding === 'gzip'
      ? createGunzip({ chunkSize: CHUNK })
      : createZstdDecompress({ chunkSize: CHUNK, params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } });
  inflater.on('data', (chunk: Buffer) => {
    try {
      target.write(chunk);
    } catch (error) {
      reject(error as Error);
      inflater.destroy();
    }
  });
  inflater.on('end', () => resolve(inflater.bytesWritten));
  inflater.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'Z_BUF_ERROR')
      reject(new TapedeckError('truncated_body', `the ${encoding} body ends before its end; send it whole`, { cause: error }));
    else reject(broken(encoding, error.code ?? 'unknown', error));
  });
  inflater.end(source);
  return promise;
}

function broken(encoding: string, reason: string, cause?: unknown): TapedeckError {
  return new TapedeckError('broken_compression', `the body is not valid ${encoding} (${reason}); compress it again`, {
    cause,
    details: { reason },
  });
}
