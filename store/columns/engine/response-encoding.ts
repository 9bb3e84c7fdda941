import type { Transform } from 'node:stream';
import { constants, createBrotliCompress, createDeflate, createGzip, createZstdCompress } from 'node:zlib';
import { createClickHouseFrameEncoder } from './clickhouse-frames.ts';
import { createLz4FrameEncoder } from './lz4-frame.ts';
import type { EngineRequest } from './request.ts';

const CODECS = ['zstd', 'gzip', 'br', 'deflate', 'lz4'] as const;
type Codec = (typeof CODECS)[number];
export type Encoding = { readonly codec: Codec | 'frames' | 'plain'; readonly header: string | null };

/** The answer's encoding: ClickHouse's own frames if the URL asks for them, else the best codec that Accept-Encoding names, unless the URL forbids it. */
export function chooseEncoding(request: EngineRequest): Encoding {
  if (request.wantsFrames) return { codec: 'frames', header: null };
  if (!request.mayCompress) return { codec: 'plain', header: null };
  const offered = new Set(
    request.acceptEncoding
      .split(',')
      .filter((part) => !/;\s*q=0(\.0*)?\s*$/.test(part))
      .map((part) => (part.split(';')[0] as string).trim()),
  );
  const codec = CODECS.find((name) => offered.has(name));
  return codec === undefined ? { codec: 'plain', header: null } : { codec, header: codec };
}

/** Levels are the fast ones: the engine and its clients share a machine. */
export function createEncoder(encoding: Encoding): Transform | null {
  switch (encoding.codec) {
    case 'plain':
      return null;
    case 'frames':
      return createClickHouseFrameEncoder();
    case 'lz4':
      return createLz4FrameEncoder();
    case 'gzip':
      return createGzip({ level: 1 });
    case 'deflate':
      return createDeflate({ level: 1 });
    case 'br':
      return createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
    case 'zstd':
      return createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 1 } });
  }
}
