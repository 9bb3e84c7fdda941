/** What the dialects share that are relayed to engines of their own only, never translated. */
import { ok, type Result } from '../../../base/result.ts';
import type { Ask, DialectName, JsonObject, StreamWriter } from './dialect.ts';
import { cannotTranslate } from './refusals.ts';

/** The request again, with its model and its sampling where `place` puts it. */
export function writeOwnAsk(ask: Ask, name: DialectName, sampling: JsonObject): Result<JsonObject> {
  if (ask.dialect !== name) return cannotTranslate('the request', name, `it is of ${ask.dialect}`, 'use an engine that speaks its dialect');
  return ok({ ...ask.rest, ...(ask.model !== '' && { model: ask.model }), ...sampling, ...(ask.stream && { stream: true }) });
}

/** Answers of these dialects reach the harness as the engine wrote them. */
export function notWritten(name: DialectName): Result<never> {
  return cannotTranslate(
    'the answer',
    name,
    'an answer of another dialect has no form in it',
    'use an engine that speaks the same dialect',
  );
}

export function refusingWriter(name: DialectName, errorBody: (status: number, code: string, message: string) => JsonObject): StreamWriter {
  return {
    write: () => notWritten(name),
    end: () => [{ name: null, data: '[DONE]', terminal: true }],
    fail: (status, code, message) => [{ name: null, data: JSON.stringify(errorBody(status, code, message)), terminal: true }],
  };
}
