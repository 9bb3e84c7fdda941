/**
 * Blobs as objects of one bucket of any S3-compatible store: `<prefix><sha256>`.
 *
 * Every upload carries the sha256 of its bytes, which the store checks before it stores them; an object is never overwritten by an upload that lost a race
 * (`If-None-Match`), and both would be the same bytes anyway. Needs permission to get and put objects; permission to list only makes misses cheaper to tell.
 */
import { addAbortSignal, Readable } from 'node:stream';
import { GetObjectCommand, HeadObjectCommand, PutObjectCommand, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import { blobMissing, blobName, isBlobName, verified } from './blob-name.ts';
import type { BlobStore } from './blob-store.ts';
import { openGate, type Note } from './open-gate.ts';
import { s3Answer, s3Failure, s3Verdict } from './s3-error.ts';

export interface S3BlobsOptions {
  readonly bucket: string;
  readonly region: string;
  /** Address of the store; left out: AWS. */
  readonly endpoint?: string;
  /** Bucket in the path instead of the host name. Default: true when there is an endpoint. */
  readonly forcePathStyle?: boolean;
  /** Left out: the usual AWS sources (environment, profile, role of the machine). */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** Start of every object's key. Default `blobs/`. */
  readonly prefix?: string;
  readonly clock: Clock;
  readonly random: Random;
  /** How long one operation may take, retries included. Default 60,000 ms. */
  readonly deadlineMs?: number;
  /** How long one request may take. Default 20,000 ms. */
  readonly requestMs?: number;
  /** Told of each request that will be made again, and why ("503 SlowDown"). */
  readonly onRetry?: (answer: string, attempt: number, waitMs: number) => void;
}

const BACKOFF = { firstMs: 100, maxMs: 5_000 };

/** Connects lazily: nothing is asked before the first call. Errors of reads beyond the port's: `store_unavailable`, `store_error` (refused). */
export function openS3Blobs(options: S3BlobsOptions): BlobStore {
  const client = new S3Client(clientConfig(options));
  const gate = openGate('the object store', options.clock, options.deadlineMs ?? 60_000);
  const objects = objectsOf(client, options);

  return {
    put: (content, mediaType, signal) =>
      gate.run('store a blob', signal, async (inner, note) => {
        const sha256 = blobName(content);
        try {
          await store(objects(inner, note), sha256, content);
        } catch (error) {
          throw s3Failure(error, 'store a blob', true);
        }
        return { sha256, bytes: content.length, mediaType };
      }),

    get: (sha256, signal) =>
      gate.run('read a blob', signal, async (inner, note) => {
        if (!isBlobName(sha256)) throw blobMissing(sha256);
        try {
          return verified(await objects(inner, note).read(sha256), sha256);
        } catch (error) {
          throw s3Verdict(error) === 'missing' ? blobMissing(sha256) : s3Failure(error, 'read a blob', false);
        }
      }),

    has: (sha256, signal) =>
      gate.run('look for a blob', signal, async (inner, note) => {
        if (!isBlobName(sha256)) return false;
        try {
          await objects(inner, note).size(sha256);
          return true;
        } catch (error) {
          if (s3Verdict(error) === 'missing') return false;
          throw s3Failure(error, 'look for a blob', false);
        }
      }),

    close: async () => {
      await gate.close();
      client.destroy();
    },
  };
}

/** Uploads the blob unless an object of its size is there; an object of another size is damaged and is replaced. */
async function store(objects: Objects, sha256: string, content: Uint8Array): Promise<void> {
  const size = await sizeIfKnown(objects, sha256);
  if (size === content.length) return;
  try {
    await objects.write(sha256, content, size === null);
  } catch (error) {
    const verdict = s3Verdict(error);
    if (verdict === 'exists') return;
    if (verdict !== 'unsupported') throw error;
    await objects.write(sha256, content, false);
  }
}

/** Null when the object is not there or the store does not tell: without permission to list, S3 answers "forbidden" for what is missing. The upload then decides. */
async function sizeIfKnown(objects: Objects, sha256: string): Promise<number | null> {
  try {
    return await objects.size(sha256);
  } catch (error) {
    const verdict = s3Verdict(error);
    if (verdict === 'missing' || verdict === 'refused') return null;
    throw error;
  }
}

/** The three requests we make, each with its deadline and retries. They throw the store's own error. */
interface Objects {
  size(sha256: string): Promise<number | null>;
  read(sha256: string): Promise<Uint8Array>;
  write(sha256: string, content: Uint8Array, onlyIfMissing: boolean): Promise<void>;
}

function objectsOf(client: S3Client, options: S3BlobsOptions): (signal: AbortSignal, note: Note) => Objects {
  const at = (sha256: string): { Bucket: string; Key: string } => ({
    Bucket: options.bucket,
    Key: `${options.prefix ?? 'blobs/'}${sha256}`,
  });
  const send = sender(options);
  return (signal, note) => ({
    size: (sha256) =>
      send(signal, note, async (abortSignal) => {
        const answer = await client.send(new HeadObjectCommand(at(sha256)), { abortSignal });
        return answer.ContentLength ?? null;
      }),

    read: (sha256) =>
      send(signal, note, async (abortSignal) => {
        const { Body: body } = await client.send(new GetObjectCommand(at(sha256)), { abortSignal });
        if (body === undefined) return new Uint8Array();
        if (body instanceof Readable) addAbortSignal(abortSignal, body);
        return body.transformToByteArray();
      }),

    write: (sha256, content, onlyIfMissing) =>
      send(signal, note, async (abortSignal) => {
        const checksum = Buffer.from(sha256, 'hex').toString('base64');
        const input = { ...at(sha256), Body: content, ContentLength: content.length, ChecksumSHA256: checksum };
        await client.send(new PutObjectCommand(onlyIfMissing ? { ...input, IfNoneMatch: '*' } : input), { abortSignal });
      }),
  });
}

function clientConfig(options: S3BlobsOptions): S3ClientConfig {
  return {
    region: options.region,
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
    forcePathStyle: options.forcePathStyle ?? options.endpoint !== undefined,
    ...(options.credentials === undefined ? {} : { credentials: options.credentials }),
    // One retry loop, ours: it has a deadline over all attempts and says what it waits for.
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 5_000 },
    // We send the sha256 and verify it; further checksums cost time, and stores that are not AWS refuse some of them.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  };
}

type Send = <T>(signal: AbortSignal, note: Note, request: (signal: AbortSignal) => Promise<T>) => Promise<T>;

/** Sends with a deadline per request and with retries until `signal` aborts. */
function sender(options: S3BlobsOptions): Send {
  const { clock, random } = options;
  const requestMs = options.requestMs ?? 20_000;
  const isPassing = (error: unknown): boolean =>
    isTapedeckError(error) ? error.code === 'deadline_exceeded' : s3Verdict(error) === 'retry';
  return (signal, note, request) =>
    retry(() => withDeadline(clock, requestMs, 'an answer of the object store', request, signal), {
      clock,
      random,
      backoff: BACKOFF,
      signal,
      classify: (error) => (isPassing(error) ? 'retry' : 'permanent'),
      onRetry: (error, attempt, waitMs) => {
        const answer = isTapedeckError(error) ? `no answer within ${requestMs} ms` : s3Answer(error);
        note(answer);
        options.onRetry?.(answer, attempt, waitMs);
      },
    });
}
