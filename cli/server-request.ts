/** Requests of commands to a running server, with its errors as ours. */
import { TapedeckError, ERROR_CODES, type ErrorCode } from '../base/errors.ts';
import { withKey } from './server-key.ts';

/** Sends one request; throws the server's own code and message, or `store_unavailable` when nobody answers. */
export async function request(url: string, path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(new URL(path, url), withKey(init));
  } catch (cause) {
    throw new TapedeckError(
      'store_unavailable',
      `no server answers at ${url}: start one with "npx tapedeck serve", or name it with --url or TAPEDECK_URL`,
      { cause },
    );
  }
  if (answer.ok) return answer;
  throw await serverError(answer);
}

export async function requestJson<T>(url: string, path: string, init: RequestInit = {}): Promise<T> {
  return (await request(url, path, init)).json() as Promise<T>;
}

export function postJson<T>(url: string, path: string, body: unknown): Promise<T> {
  return requestJson<T>(url, path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
}

async function serverError(answer: Response): Promise<TapedeckError> {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; details?: Record<string, unknown> } };
    const code: ErrorCode = Object.hasOwn(ERROR_CODES, error.code) ? (error.code as ErrorCode) : 'internal';
    return new TapedeckError(code, error.message, { details: error.details ?? {} });
  } catch {
    return new TapedeckError('internal', `the server answered ${answer.status}: ${text.slice(0, 500)}`);
  }
}
