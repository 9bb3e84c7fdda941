/** Sends batches to `POST /v1/events` of a server and waits until each has its final answer. Sending again is safe: event ids name what is stored. */
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { ERROR_CODES, isTapedeckError, TapedeckError, type ErrorCode } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { retry, type Verdict } from '../../base/retry.ts';
import { z } from 'zod';
import { ByteWriter } from '../../base/byte-writer.ts';
import { writeHead } from '../../events/codec/cbor-encode.ts';
import { MAJOR } from '../../events/codec/cbor-head.ts';
import type { Sink, SinkResult } from './lanes.ts';

export type HttpSinkOptions = {
  /** Base address of the server, "http://127.0.0.1:7070". */
  readonly url: string;
  readonly clock: Clock;
  readonly random: Random;
  /** One request may take this long. */
  readonly requestMs?: number;
  /** A batch is tried again for this long (server busy, restarting, unreachable) before the import gives up. */
  readonly patienceMs?: number;
  readonly onRetry?: (reason: string, waitMs: number) => void;
  readonly fetch?: typeof fetch;
};

const REQUEST_MS = 120_000;
const PATIENCE_MS = 300_000;
const MAX_RETRY_AFTER_MS = 30_000;

const rejection = z.looseObject({ index: z.int().nonnegative(), code: z.string(), message: z.string(), field: z.string().optional() });
const answer = z.looseObject({
  accepted: z.int().nonnegative(),
  duplicates: z.int().nonnegative(),
  rejected: z.array(rejection),
  deadLettered: z.array(rejection).optional(),
});
const failure = z.looseObject({ error: z.looseObject({ code: z.string(), message: z.string() }) });

/**
 * A sink over HTTP. It retries on 408, 429, 5xx that can pass and broken connections, waiting at least `Retry-After`. A single event that is larger than
 * the server's limit for a body is one refused event. Errors: that of the answer, `deadline_exceeded` when patience ran out, `aborted`.
 */
export function httpSink(options: HttpSinkOptions): Sink {
  const { clock, random } = options;
  const target = new URL('/v1/events', options.url);
  return async (slices, signal) => {
    const body = arrayOf(slices);
    const patience = options.patienceMs ?? PATIENCE_MS;
    return withDeadline(
      clock,
      patience,
      `${target.origin} to take ${slices.length} events`,
      (within) =>
        retry(() => post(target, body, options, within), {
          clock,
          random,
          backoff: { firstMs: 100, maxMs: 5_000 },
          classify: verdictOf,
          signal: within,
          onRetry: (error, _attempt, waitMs) => options.onRetry?.(error instanceof Error ? error.message : String(error), waitMs),
        }).catch((error: unknown) => alone(slices, error)),
      signal,
    );
  };
}

/** One event too large for a request is refused like any other bad event; the rest of the import goes on. */
function alone(slices: readonly Uint8Array[], error: unknown): SinkResult {
  if (slices.length !== 1 || !isTapedeckError(error, 'body_too_large', 'inflated_too_large')) throw error;
  return { accepted: 0, duplicates: 0, rejected: [{ index: 0, code: error.code, message: error.message }] };
}

function arrayOf(slices: readonly Uint8Array[]): Buffer {
  const head = new ByteWriter(16);
  writeHead(MAJOR.array, slices.length, head);
  return Buffer.concat([head.view(), ...slices]);
}

async function post(target: URL, body: Buffer, options: HttpSinkOptions, signal: AbortSignal): Promise<SinkResult> {
  const send = options.fetch ?? fetch;
  const ms = options.requestMs ?? REQUEST_MS;
  return withDeadline(options.clock, ms, `the answer of ${target.origin}`, async (within) => {
    const headers = { 'content-type': 'application/cbor', accept: 'application/json' };
    const response = await send(target, { method: 'POST', headers, body, signal: within }).catch((error: unknown) => {
      throw new TapedeckError('log_unavailable', `cannot reach ${target.origin}: ${causeOf(error)}`, { cause: error });
    });
    const text = await response.text().catch((error: unknown) => {
      throw new TapedeckError('append_unclear', `the connection to ${target.origin} broke during the answer`, { cause: error });
    });
    if (response.status === 200) return resultOf(text, target);
    const problem = problemOf(text, response.status, target);
    if (problem.retriable) await waitAsked(response.headers.get('retry-after'), options.clock, within);
    throw problem;
  }, signal); // prettier-ignore
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as NodeJS.ErrnoException | undefined) : undefined;
  return cause?.code ?? (error instanceof Error ? error.message : String(error));
}

function resultOf(text: string, target: URL): SinkResult {
  const parsed = answer.safeParse(jsonOf(text));
  if (!parsed.success) throw new TapedeckError('bad_request', `${target.origin} answered 200 with something else than a Tapedeck server does: is the address right?`); // prettier-ignore
  const { accepted, duplicates, rejected, deadLettered = [] } = parsed.data;
  const refusals = [...rejected, ...deadLettered].map(({ index, code, message, field }) => ({
    index,
    code: codeOf(code) ?? 'internal',
    message,
    ...(field !== undefined && { field }),
  }));
  return { accepted, duplicates, rejected: refusals };
}

/** The server's own error, or one made of the status when something in between answered. */
function problemOf(text: string, status: number, target: URL): TapedeckError {
  const parsed = failure.safeParse(jsonOf(text));
  const code = parsed.success ? codeOf(parsed.data.error.code) : null;
  const message = parsed.success ? parsed.data.error.message : `${target.origin} answered with status ${status}`;
  if (code !== null) return new TapedeckError(code, message);
  if (status === 429) return new TapedeckError('overloaded', message);
  return new TapedeckError(status >= 502 && status <= 504 ? 'log_unavailable' : 'bad_request', message);
}

function codeOf(code: string): ErrorCode | null {
  return Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : null;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Whole seconds, as our server writes it; dates and nonsense are ignored. */
async function waitAsked(header: string | null, clock: Clock, signal: AbortSignal): Promise<void> {
  const seconds = header !== null && /^\d{1,6}$/.test(header) ? Number(header) : 0;
  if (seconds > 0) await clock.sleep(Math.min(seconds * 1000, MAX_RETRY_AFTER_MS), signal);
}

function verdictOf(error: unknown): Verdict {
  if (!isTapedeckError(error)) return 'unknown';
  return error.retriable && error.code !== 'aborted' ? 'retry' : 'permanent';
}
