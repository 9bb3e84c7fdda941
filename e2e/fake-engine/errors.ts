/** How each kind of server says no. */
import { sendJson, type Call, type Frame } from './answer.ts';
import type { Refusal } from './generation.ts';

export function openaiError(call: Call, refusal: Refusal, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  return sendJson(call, refusal.status, openaiErrorBody(call, refusal), headers);
}

function openaiErrorBody(call: Call, { status, message, param }: Refusal): unknown {
  if (call.engine.kind === 'openai') {
    const type = status === 429 ? 'rate_limit_error' : status >= 500 ? 'server_error' : 'invalid_request_error';
    return { error: { message, type, param: param ?? null, code: status === 404 ? 'model_not_found' : null } };
  }
  const type =
    status === 404 ? 'NotFoundError' : status === 429 ? 'RateLimitError' : status >= 500 ? 'InternalServerError' : 'BadRequestError';
  if (call.engine.kind === 'sglang') return { object: 'error', message, type, param: param ?? null, code: status };
  return { error: { message, type, param: param ?? null, code: status } };
}

export function openaiStreamError(message: string): readonly Frame[] {
  const text = JSON.stringify({ error: { message, type: 'InternalServerError', param: null, code: 500 } });
  return [
    { text: `data: ${text}\n\n`, tokens: 0 },
    { text: 'data: [DONE]\n\n', tokens: 0 },
  ];
}

export function anthropicError(call: Call, { status, message }: Refusal, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const type = ANTHROPIC_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return sendJson(call, status, { type: 'error', error: { type, message }, request_id: `req_${call.seen.n}` }, headers);
}

export function anthropicStreamError(message: string): readonly Frame[] {
  return [{ text: `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'api_error', message } })}\n\n`, tokens: 0 }];
}

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};
