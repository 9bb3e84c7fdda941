import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Clock } from '../../../base/clock.ts';
import { withDeadline } from '../../../base/deadline.ts';
import { contentTypeOf } from './content-type.ts';
import type { EngineRequest } from './request.ts';
import { chooseEncoding, createEncoder } from './response-encoding.ts';
import type { WireError } from './wire-error.ts';
import { httpStatusOf, wireText } from './wire-error.ts';

export type Summary = { readonly readRows: number; readonly readBytes: number; readonly writtenRows: number; readonly elapsedMs: number };

/** Facts about the engine that every answer states. */
export type EngineFacts = { readonly version: string; readonly timezone: string };

export type Reply = {
  /** Sends bytes of the result, or holds them back at its beginning; resolves when the client is ready for more. */
  write(chunk: Uint8Array): Promise<void>;
  end(summary: Summary): Promise<void>;
  /** Before the first byte an error answer; behind it the exception block that clients look for. */
  fail(error: WireError): Promise<void>;
};

export type ReplyOptions = {
  readonly request: EngineRequest;
  readonly facts: EngineFacts;
  readonly queryId: string;
  readonly format: string;
  /** 16 characters that mark the exception block of this answer. */
  readonly exceptionTag: string;
  readonly clock: Clock;
  /** How long a client may leave the answer unread before the query is given up. */
  readonly stallMs: number;
  /** Aborts when the client is gone. */
  readonly gone: AbortSignal;
};

/**
 * The beginning of every answer is held back, as a server's output buffer does: an error that comes early gets a proper status, and a small answer
 * its length and a true summary.
 */
const HOLD_BYTES = 64 * 1024;
const HOLD_ALL_BYTES = 4 * 1024 * 1024;
const NO_SUMMARY: Summary = { readRows: 0, readBytes: 0, writtenRows: 0, elapsedMs: 0 };

export function createReply(response: ServerResponse, options: ReplyOptions): Reply {
  const { request } = options;
  const encoding = chooseEncoding(request);
  const limit = request.waitsForEnd ? HOLD_ALL_BYTES : Math.min(request.holdBytes ?? HOLD_BYTES, HOLD_ALL_BYTES);
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let out: Writable | null = null;

  const start = (summary: Summary): Writable => {
    setFacts(response, options);
    response.setHeader('X-ClickHouse-Summary', summaryText(summary));
    response.setHeader('X-ClickHouse-Exception-Tag', options.exceptionTag);
    response.setHeader('Content-Type', contentTypeOf(options.format));
    if (encoding.header !== null) response.setHeader('Content-Encoding', encoding.header);
    response.writeHead(200);
    const encoder = createEncoder(encoding);
    encoder?.pipe(response, { end: false });
    return (out = encoder ?? response);
  };
  const send = async (chunk: Uint8Array): Promise<void> => {
    const target = out ?? start(NO_SUMMARY);
    options.gone.throwIfAborted();
    if (target.write(chunk)) return;
    try {
      await withDeadline(
        options.clock,
        options.stallMs,
        'the client to read the result',
        (signal) => once(target, 'drain', { signal }),
        options.gone,
      );
    } catch (error) {
      response.destroy();
      throw error;
    }
  };
  const flushHeld = async (): Promise<void> => {
    const parts = held;
    held = [];
    for (const part of parts) await send(part);
  };
  /** Ends the encoder, so that all bytes are with the response; the response itself stays open. */
  const finishEncoder = async (): Promise<void> => {
    if (out === null || out === response) return;
    const ended = once(out, 'end', { signal: options.gone });
    out.end();
    await ended;
  };

  return {
    async write(chunk) {
      if (out === null && heldBytes + chunk.length <= limit) {
        held.push(Buffer.from(chunk));
        heldBytes += chunk.length;
        return;
      }
      await flushHeld();
      await send(chunk);
    },
    async end(summary) {
      if (out === null && encoding.codec === 'plain') response.setHeader('Content-Length', String(heldBytes));
      if (out === null) start(summary);
      await flushHeld();
      await finishEncoder();
      response.end();
    },
    async fail(error) {
      if (out === null) {
        failWhole(response, error, options);
        return;
      }
      const text = wireText(error, options.facts.version);
      const size = Buffer.byteLength(text);
      const mark = `\r\n__exception__\r\n`;
      await send(Buffer.from(`${mark}${options.exceptionTag}\r\n${text}${size} ${options.exceptionTag}${mark}`));
      await finishEncoder();
      if (request.endsErrorsCleanly) response.end();
      // Without the last chunk the answer is visibly broken: a client that does not look for the block would take its text for rows.
      else response.socket?.destroySoon();
    },
  };
}

/** An answer that is only an error: its code in a header, its text uncompressed. */
export function failWhole(response: ServerResponse, error: WireError, options: Pick<ReplyOptions, 'facts' | 'queryId'>): void {
  if (response.headersSent || response.destroyed) return;
  setFacts(response, options);
  response.setHeader('X-ClickHouse-Exception-Code', String(error.code));
  response.setHeader('Content-Type', 'text/plain; charset=UTF-8');
  response.writeHead(httpStatusOf(error));
  response.end(wireText(error, options.facts.version));
}

function setFacts(response: ServerResponse, options: Pick<ReplyOptions, 'facts' | 'queryId'> & { format?: string }): void {
  response.setHeader('X-ClickHouse-Query-Id', headerText(options.queryId));
  response.setHeader('X-ClickHouse-Timezone', options.facts.timezone);
  response.setHeader('X-ClickHouse-Server-Display-Name', 'tapedeck');
  if (options.format !== undefined) response.setHeader('X-ClickHouse-Format', options.format);
}

function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}

/** `result_rows` is what was read: the engine does not tell the size of a result, and a client drops the rows of an answer that says 0. */
function summaryText(summary: Summary): string {
  return JSON.stringify({
    read_rows: String(summary.readRows),
    read_bytes: String(summary.readBytes),
    written_rows: String(summary.writtenRows),
    written_bytes: summary.writtenRows > 0 ? String(summary.readBytes) : '0',
    total_rows_to_read: String(summary.readRows),
    result_rows: String(summary.writtenRows > 0 ? summary.writtenRows : summary.readRows),
    result_bytes: String(summary.readBytes),
    elapsed_ns: String(Math.round(summary.elapsedMs * 1e6)),
  });
}
