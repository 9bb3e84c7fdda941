/** Uploads as tests send them: framed byte for byte as the recorded requests of the Prime clients are (httpx), over a real edge whose column store is away. */
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { connectColumns } from '../../store/columns/clickhouse-http.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { openEdge, type Edge, type EdgeOptions } from '../http/edge-under-test.ts';
import { primeRoutes } from './routes.ts';
import type { UploadLimits } from './upload-limits.ts';

export const BOUNDARY = 'faa7ece01736d2aeddfd61e0a4405aa2';
export const METADATA =
  '{"schema_version": 1, "context": {"source": "prime-runs", "run_type": "eval", "framework": "verifiers", "model": "toy"}}';

export type UploadParts = {
  /** The lines, uncompressed. */
  readonly lines: string | Buffer;
  readonly format?: string;
  readonly metadata?: string;
  /** The part's content instead of gzip of `lines`. */
  readonly content?: Buffer;
  /** Headers of the part traces. */
  readonly partHeaders?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The whole body instead. */
  readonly body?: Buffer;
};

export function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

const PART =
  'Content-Disposition: form-data; name="traces"; filename="traces.jsonl"\r\nContent-Encoding: gzip\r\nContent-Type: application/x-ndjson';

export function multipart(parts: readonly (readonly [headers: string, content: Buffer | string])[], boundary = BOUNDARY): Buffer {
  const pieces = parts.flatMap(([headers, content]) => [`--${boundary}\r\n${headers}\r\n\r\n`, content, '\r\n']);
  return Buffer.concat([...pieces, `--${boundary}--\r\n`].map((piece) => Buffer.from(piece)));
}

/** The request that the recorded clients would make of these lines. */
export function uploadRequest({ lines, metadata = METADATA, ...more }: UploadParts): { headers: Record<string, string>; body: Buffer } {
  const body =
    more.body ??
    multipart([
      ['Content-Disposition: form-data; name="metadata"\r\nContent-Type: application/json', metadata],
      [more.partHeaders ?? PART, more.content ?? gzipSync(lines)],
    ]);
  const format = more.format ?? 'episode';
  const headers = {
    authorization: 'Bearer secret-key',
    'idempotency-key': `sha256:${sha256(lines)}`,
    ...(format !== 'trace' && { 'x-prime-line-format': format }),
    'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
    ...more.headers,
  };
  return { headers, body };
}

export type PrimeReply = { readonly status: number; readonly headers: Headers; readonly body: Record<string, unknown> & { error?: { code: string; message: string; details?: Record<string, unknown> } } }; // prettier-ignore

export async function upload(url: string, parts: UploadParts): Promise<PrimeReply> {
  const { headers, body } = uploadRequest(parts);
  return reply(await fetch(`${url}/api/v1/traces`, { method: 'POST', headers, body: new Uint8Array(body) }));
}

export async function call(url: string, method: string, path: string, body?: unknown): Promise<PrimeReply> {
  const init =
    body === undefined
      ? {}
      : { body: typeof body === 'string' ? body : JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  return reply(await fetch(url + path, { method, ...init }));
}

async function reply(response: Response): Promise<PrimeReply> {
  return { status: response.status, headers: response.headers, body: (await response.json()) as PrimeReply['body'] };
}

/** Nobody listens there: what the edge does while the column store is away. */
export function storeAway(): ColumnStore {
  return connectColumns({ url: 'http://127.0.0.1:9', user: 'u', password: 'p', database: 'd', clock: systemClock, random: systemRandom });
}

/** A real edge with the Prime routes. */
export async function openPrimeEdge(options: EdgeOptions & { readonly uploads?: Partial<UploadLimits> } = {}): Promise<Edge> {
  return openEdge({
    ...options,
    routes: () => [primeRoutes({ store: storeAway(), ...(options.uploads !== undefined && { limits: options.uploads }) })],
  });
}
