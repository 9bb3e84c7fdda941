/** What a harness is going to be told, before it is told: so that the record, which comes first, holds it. */
import { PackedArray } from '../../../events/packed-array.ts';
import { createPieceWriter, type PieceWriter } from '../../../events/answer-pieces.ts';
import type { DataOf } from '../../../events/registry.ts';
import type { Dialect, JsonObject } from '../dialects/dialect.ts';
import { writeJson } from '../dialects/json.ts';
import { encodeSse } from '../sse/sse-encoder.ts';
import type { PlainHeaders } from './harness-headers.ts';
import type { HarnessOut } from './out.ts';

export type Told = NonNullable<DataOf<'call.recorded'>['told']>;

export type Reply =
  | { readonly kind: 'body'; readonly status: number; readonly headers: PlainHeaders; readonly body: Buffer }
  /** All events of a stream at once. */
  | { readonly kind: 'stream'; readonly headers: PlainHeaders; readonly body: Buffer }
  /** In the dialect's own shape: as a body, or inside a stream that has begun, which then breaks off. */
  | { readonly kind: 'error'; readonly status: number; readonly code: string; readonly message: string; readonly headers: PlainHeaders };

export const JSON_TYPE = 'application/json; charset=utf-8';

export function sendReply(out: HarnessOut, dialect: Dialect, reply: Reply): void {
  if (out.isGone) return;
  if (reply.kind === 'stream') {
    if (!out.isStarted) out.head(200, reply.headers);
    out.end(reply.body);
  } else if (reply.kind === 'body' || !out.isStarted) {
    const { status, headers, body } = reply.kind === 'body' ? reply : errorInBody(dialect, reply);
    out.head(status, { ...headers, 'content-length': String(body.length) });
    out.end(body);
  } else {
    out.write(errorInStream(dialect, reply));
    out.destroy();
  }
}

/** `sinceStart`: microseconds that the call has taken. A stream that has begun by itself was told its head already. */
export function toldOf(out: HarnessOut, dialect: Dialect, reply: Reply, sinceStart: number): Told {
  const said = reply.kind === 'error' && !out.isStarted ? errorInBody(dialect, reply) : reply;
  const status = said.kind === 'body' ? said.status : 200;
  const pieces = createPieceWriter({ maxBytes: Infinity });
  pieces.add(said.kind === 'error' ? errorInStream(dialect, said) : said.body, sinceStart);
  return told(out.begun ?? { status, headers: said.headers }, pieces, said.kind === 'error' ? 'broken' : 'complete');
}

/** A harness that was told nothing: it left before. */
export function toldNothing(out: HarnessOut): Told {
  return told(out.begun ?? { status: 200, headers: {} }, createPieceWriter({ maxBytes: 0 }), 'left');
}

export function told(head: { readonly status: number; readonly headers: PlainHeaders }, pieces: PieceWriter, ending: Told['ending']): Told {
  return {
    status: head.status,
    headers: { ...head.headers },
    pieces: pieces.isWhole ? PackedArray.of(pieces.take()) : null,
    ending,
  };
}

type ErrorReply = Extract<Reply, { kind: 'error' }>;

function errorInBody(dialect: Dialect, { status, code, message, headers }: ErrorReply): Extract<Reply, { kind: 'body' }> {
  const body = jsonBuffer(dialect.errorBody(status, code, message));
  return { kind: 'body', status, headers: { ...headers, 'content-type': JSON_TYPE }, body };
}

export function errorInStream(dialect: Dialect, { status, code, message }: Pick<ErrorReply, 'status' | 'code' | 'message'>): Uint8Array {
  const data = writeJson(dialect.errorBody(status, code, message));
  return encodeSse({ name: dialect.name === 'openai.chat' ? null : 'error', data });
}

export function jsonBuffer(value: JsonObject): Buffer {
  return Buffer.from(writeJson(value));
}
