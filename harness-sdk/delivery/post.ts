/** One request of events to `POST /v1/events`, with a deadline. Never throws: what went wrong is an answer too. */
import { gzip } from 'node:zlib';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { TapedeckError } from '../../base/errors.ts';
import { writeHead } from '../../events/codec/cbor-encode.ts';
import { MAJOR } from '../../events/codec/cbor-head.ts';
import { ByteWriter } from '../../base/byte-writer.ts';
import { answerOf, type Answer } from './answer.ts';
import { fetchTransport, nodeTransport } from './transport.ts';

export type Post = (body: Buffer, signal: AbortSignal) => Promise<Answer>;
export type PostOptions = {
  readonly url: string;
  readonly key: string | undefined;
  readonly gzip: boolean;
  readonly requestMs: number;
  readonly clock: Clock;
  /** Default: node:http. */
  readonly fetch?: typeof fetch | undefined;
};

export function httpPost(options: PostOptions): Post {
  const target = new URL('v1/events', options.url.endsWith('/') ? options.url : `${options.url}/`);
  const headers: Record<string, string> = { 'content-type': 'application/cbor', accept: 'application/json' };
  if (options.key !== undefined) headers['authorization'] = `Bearer ${options.key}`;
  if (options.gzip) headers['content-encoding'] = 'gzip';
  const transport = options.fetch === undefined ? nodeTransport() : fetchTransport(options.fetch);
  return async (body, signal) => {
    try {
      return await withDeadline(
        options.clock,
        options.requestMs,
        `the answer of ${target.origin}`,
        async (within) => {
          const { status, body: text, retryAfter } = await transport(target, headers, options.gzip ? await gzipped(body) : body, within);
          return answerOf(status, text, retryAfter);
        },
        signal,
      );
    } catch (error) {
      return {
        kind: 'again',
        problem: { code: 'log_unavailable', message: `cannot reach ${target.origin}: ${reasonOf(error)}` },
        waitMs: null,
      };
    }
  };
}

/** One CBOR array of events, in a buffer of its own; `starts` is where each begins. */
export function bodyOf(events: readonly Uint8Array[]): { readonly body: Buffer; readonly starts: readonly number[] } {
  const head = new ByteWriter(16);
  writeHead(MAJOR.array, events.length, head);
  const starts: number[] = [];
  let at = head.length;
  for (const event of events) {
    starts.push(at);
    at += event.length;
  }
  const body = Buffer.allocUnsafeSlow(at);
  body.set(head.view(), 0);
  for (const [i, event] of events.entries()) body.set(event, starts[i]);
  return { body, starts };
}

function gzipped(body: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => gzip(body, { level: 1 }, (error, out) => (error === null ? resolve(out) : reject(error))));
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, cause } = error as NodeJS.ErrnoException & { cause?: NodeJS.ErrnoException };
  return cause?.code ?? cause?.message ?? (error instanceof TapedeckError ? error.message : (code ?? error.message));
}
