/** What all folds share: an event's data as an object, or the problem that it is none. */
import { fail, ok, type Result } from '../../../base/result.ts';
import type { SseEvent } from '../sse/sse-event.ts';
import type { FoldStep, Json, JsonObject, StreamError } from './dialect.ts';
import { statusOfError } from './error-bodies.ts';
import { isObject, readJson, textOf, writeJson } from './json.ts';

/** `null` for what carries no data: comments, [DONE], empty data. */
export function dataOf(event: SseEvent): Result<JsonObject | null> {
  if (event.problem !== null) return { ok: false, error: event.problem };
  const { data } = event;
  if (event.kind === 'comment' || isDone(event) || data.trim() === '') return ok(null);
  const read = readJson(data);
  if (!read.ok) return read;
  return isObject(read.value) ? ok(read.value) : fail('malformed_stream', 'the data of an event must be a JSON object');
}

export function isDone(event: SseEvent): boolean {
  return event.kind === 'event' && event.data.trim() === '[DONE]';
}

export const NOTHING: FoldStep = { deltas: [], json: null, terminal: false };

/** `{error: {…}}`, or an error that is a text, as engines send them inside a stream. */
export function streamError(error: Json, body: Json): StreamError {
  const object = isObject(error) ? error : {};
  const type = textOf(object['type']) ?? textOf(object['code']) ?? 'error';
  const message = textOf(object['message']) ?? (typeof error === 'string' ? error : writeJson(error));
  return { type, message, status: statusOfError(type, object['code'] ?? object['status'] ?? null), body };
}
