/**
 * The file of an export, from the server to a disk or a stream. A connection that breaks is taken up where it broke. To a disk, bytes go to `.<name>.partial` beside the
 * file, which is there only when it is whole and has the digest that the server told: a download that was stopped goes on from the partial file.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import { retry } from '../../../base/retry.ts';
import { lineWriter } from '../../../ingest/importers/export-file.ts';
import { request } from '../../server-request.ts';

/** One file: of the job, or beside it. */
export type Remote = { readonly url: string; readonly path: string; readonly bytes: number; readonly sha256: string };
export type DownloadOptions = {
  readonly signal: AbortSignal;
  /** Bytes that are there, of all. */
  readonly onBytes?: (bytes: number) => void;
  /** A connection broke, and is taken up again. */
  readonly onRetry?: (reason: string, waitMs: number) => void;
};
type Take = (chunk: Uint8Array) => Promise<void>;

const BACKOFF = { firstMs: 200, maxMs: 10_000 };
/** How often a connection may break without a byte in between. */
const MAX_TRIES = 8;

/** Errors: `not_writable`, `disk_full`; `digest_mismatch` when what came is not the file (the partial file is removed); those of the server. */
export async function downloadToFile(remote: Remote, path: string, options: DownloadOptions): Promise<void> {
  const partial = partialOf(path);
  const hash = createHash('sha256');
  const there = await resumable(partial, remote.bytes, hash);
  const file = await open(partial, there > 0 ? 'a' : 'w').catch((error: unknown) => {
    throw fileError(error, path);
  });
  try {
    await pull(remote, there, async (chunk) => {
      await file.appendFile(chunk).catch((error: unknown) => {
        throw fileError(error, path);
      });
      hash.update(chunk);
    }, options);
    await file.sync();
  } finally {
    await file.close();
  }
  if (hash.digest('hex') !== remote.sha256) {
    await rm(partial, { force: true });
    throw mismatch(remote);
  }
  await rename(partial, path);
} // prettier-ignore

/** To standard output or another stream, at the reader's pace. */
export async function downloadToStream(remote: Remote, stream: Writable, options: DownloadOptions): Promise<void> {
  const write = lineWriter(stream);
  const hash = createHash('sha256');
  await pull(remote, 0, async (chunk) => {
    await write(chunk);
    hash.update(chunk);
  }, options);
  if (hash.digest('hex') !== remote.sha256) throw mismatch(remote);
} // prettier-ignore

export function partialOf(path: string): string {
  return join(dirname(path), `.${basename(path)}.partial`);
}

/** How much of the partial file is taken over; it is read once, for the digest. */
async function resumable(partial: string, bytes: number, hash: Hash): Promise<number> {
  const there = await stat(partial).catch(() => null);
  if (there === null || there.size === 0 || there.size > bytes) return 0;
  for await (const chunk of createReadStream(partial)) hash.update(chunk as Uint8Array);
  return there.size;
}

async function pull(remote: Remote, from: number, take: Take, { signal, onBytes, onRetry }: DownloadOptions): Promise<void> {
  let at = from;
  let tries = 0;
  onBytes?.(at);
  if (at === remote.bytes) return;
  await retry(() => once(remote, at, async (chunk) => {
    await take(chunk);
    at += chunk.length;
    tries = 0;
    onBytes?.(at);
  }, signal), {
    clock: systemClock, random: systemRandom, backoff: BACKOFF, signal,
    classify: (error) => (isTapedeckError(error, 'truncated_body', 'store_unavailable') && ++tries < MAX_TRIES ? 'retry' : 'permanent'),
    onRetry: (error, _, waitMs) => onRetry?.((error as Error).message, waitMs),
  });
} // prettier-ignore

/** One request from `at` on. `truncated_body` when the connection ends early. */
async function once({ url, path, bytes, sha256 }: Remote, at: number, take: Take, signal: AbortSignal): Promise<void> {
  const headers = at === 0 ? {} : { range: `bytes=${at}-`, 'if-range': `"${sha256}"` };
  const answer = await request(url, path, { headers, signal });
  if (at > 0 && answer.status !== 206) throw new TapedeckError('digest_mismatch', 'the file on the server is another one: begin again');
  let came = at;
  for await (const chunk of chunksOf(answer, signal)) {
    await take(chunk);
    came += chunk.length;
  }
  if (came < bytes) throw new TapedeckError('truncated_body', `the connection ended at ${came} of ${bytes} bytes`);
}

/** A failure of the connection is one of the download; one of the disk stays what it is. */
async function* chunksOf(answer: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = (answer.body ?? new ReadableStream<Uint8Array>()).getReader();
  try {
    for (;;) {
      const next = await reader.read().catch((cause: unknown) => {
        signal.throwIfAborted();
        throw new TapedeckError('truncated_body', 'the connection broke', { cause });
      });
      if (next.done) return;
      yield next.value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function mismatch({ sha256 }: Remote): TapedeckError {
  return new TapedeckError('digest_mismatch', `what came is not the file with sha256 ${sha256}: begin again`);
}

function fileError(error: unknown, path: string): TapedeckError {
  const { code } = error as NodeJS.ErrnoException;
  return new TapedeckError(code === 'ENOSPC' ? 'disk_full' : 'not_writable', `cannot write ${path}: ${code ?? 'unknown error'}`, {
    cause: error,
  });
}
