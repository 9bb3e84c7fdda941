/** The shape in which each dialect says no. Official clients read `error.type`, `error.code` and `error.message`, and go by the status. */
import { ERROR_CODES, type ErrorCode } from '../../../base/errors.ts';
import type { JsonObject } from './dialect.ts';

/** The `type` words of the OpenAI API by status. */
const OPENAI_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  409: 'conflict_error',
  413: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  499: 'cancelled_error',
};
/** The `type` words of the Anthropic API by status. */
const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  409: 'invalid_request_error',
  413: 'request_too_large',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  499: 'api_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

/** chat, responses, completions, embeddings, and vLLM's and SGLang's own routes. `param` names the field where one is known. */
export function openaiErrorBody(status: number, code: string, message: string, param: string | null = null): JsonObject {
  return { error: { message, type: OPENAI_TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error'), param, code } };
}

/** The Messages API has no code: it stands in front of the message, so that people and programs find it. */
export function anthropicErrorBody(status: number, code: string, message: string): JsonObject {
  const type = ANTHROPIC_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { type, message: message.startsWith(`${code}: `) ? message : `${code}: ${message}` } };
}

/** The status a stream's error stands for, from the words of either API; null when it says none. */
export function statusOfError(type: string, code: unknown): number | null {
  if (typeof code === 'number' && code >= 400 && code < 600) return code;
  if (typeof code === 'string' && /^[45]\d\d$/.test(code)) return Number(code);
  if (typeof code === 'string' && Object.hasOwn(ERROR_CODES, code)) return ERROR_CODES[code as ErrorCode].status;
  const words = [type, typeof code === 'string' ? code : ''];
  const known: Readonly<Record<string, number>> = {
    invalid_request_error: 400, invalid_prompt: 400, context_length_exceeded: 400, authentication_error: 401, billing_error: 402, permission_error: 403,
    not_found_error: 404, timeout_error: 504, request_too_large: 413, rate_limit_error: 429, rate_limit_exceeded: 429, insufficient_quota: 429,
    overloaded_error: 529, api_error: 500, server_error: 500, internal_error: 500,
  }; // prettier-ignore
  for (const word of words) if (Object.hasOwn(known, word)) return known[word] as number;
  return null;
}
