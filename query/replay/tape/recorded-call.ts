/** One recorded call as a replay needs it: what was asked, and what the harness was told. Pure. */
import { isTapedeckError } from '../../../base/errors.ts';
import { readPieces, type AnswerPiece } from '../../../events/answer-pieces.ts';
import { toJson } from '../../../events/codec/cbor-to-json.ts';
import { isMap } from '../../../events/fields.ts';
import type { EventOf } from '../../../events/registry.ts';
import { canonicalRequest, readRequest, type Fields } from '../request/canonical-request.ts';

export type RecordedAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly pieces: readonly AnswerPiece[];
  readonly ending: 'complete' | 'broken' | 'left';
  /** False: printed from the recorded value; equal by value, not byte for byte. */
  readonly isExact: boolean;
};

export type RecordedCall = {
  readonly trace: string;
  /** Its ordinal in the trace. */
  readonly index: number;
  readonly dialect: string | null;
  /** Null: the record holds none, so that nothing can match it. */
  readonly request: Fields | null;
  /** `messages`: the request was not captured but rebuilt from the graph, and is compared by what was said. */
  readonly matchedBy: 'request' | 'messages';
  readonly answer: RecordedAnswer | null;
  /** The answer for a client that asks for a stream, where the record does not say how it came. */
  readonly streamed: RecordedAnswer | null;
  /** Why there is no answer, or no request; null when both are there. */
  readonly missing: string | null;
  /** Microseconds. */
  readonly start: number;
  readonly retryOf: number | null;
  /** It reached its end; a repeated request gets this answer again. */
  readonly isGood: boolean;
  /** Name of the limit that refused it. */
  readonly limit: string | null;
  /** The node that holds the answer, and the model and policy version that gave it. */
  readonly node: number | null;
  readonly model: string | null;
};

export function recordedCall(event: EventOf<'call.recorded'>): RecordedCall {
  const { data, trace } = event;
  const request = requestOf(data.request);
  const answer = answerOf(data);
  const limit = data.extra?.['limit'];
  return {
    trace: trace as string,
    index: data.index,
    dialect: data.dialect ?? null,
    request: request === null ? null : canonicalRequest(request),
    matchedBy: 'request',
    answer,
    streamed: null,
    missing: request === null ? NO_REQUEST : answer === null ? whyNoAnswer(data) : null,
    start: data.time?.start ?? event.time,
    retryOf: data.retryOf ?? null,
    isGood: data.error === undefined || data.error === null || data.error.type === 'empty_answer',
    limit: typeof limit === 'string' ? limit : null,
    node: data.node ?? null,
    model: data.model ?? null,
  };
}

const NO_REQUEST = 'its request is not recorded';

type CallData = EventOf<'call.recorded'>['data'];

/** A request that was too large for an event is recorded as its text. */
function requestOf(value: unknown): Fields | null {
  if (isMap(value)) return value;
  if (typeof value !== 'string') return null;
  const read = readRequest(Buffer.from(value));
  return read.ok ? read.value : null;
}

function answerOf({ told, response, stream, error }: CallData): RecordedAnswer | null {
  if (told?.pieces) {
    const { status, headers = {}, ending } = told;
    const pieces = piecesOf(told.pieces.bytes);
    return pieces === null ? null : { status, headers: textHeaders(headers), pieces, ending, isExact: true };
  }
  if (told !== undefined && told !== null) return null;
  // recorded before answers were kept byte for byte: a whole JSON body can be printed from its value
  const isBody = isMap(response) && (stream !== true || error?.statusCode != null);
  if (!isBody) return null;
  const body = Buffer.from(toJson(response));
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return { status: error?.statusCode ?? 200, headers, pieces: [{ atMicros: 0, bytes: body }], ending: 'complete', isExact: false };
}

/** Null for bytes that no gateway wrote. */
function piecesOf(bytes: Uint8Array): AnswerPiece[] | null {
  try {
    return readPieces(bytes);
  } catch (error) {
    if (isTapedeckError(error, 'invalid_value')) return null;
    throw error;
  }
}

function whyNoAnswer({ told }: CallData): string {
  if (told?.pieces) return 'the pieces of its answer cannot be read';
  return told !== undefined && told !== null
    ? 'its answer was too large to be kept byte for byte'
    : 'its answer is not recorded byte for byte: it was streamed through an older gateway, or not through one';
}

function textHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string | readonly string[]> {
  const kept: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string') kept[name] = value;
    else if (Array.isArray(value) && value.every((item): item is string => typeof item === 'string')) kept[name] = value;
  }
  return kept;
}
