import { ERROR_CODES, TapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';
import { withKey } from '../server-key.ts';

/** Asks the server; any answer but a success becomes a TapedeckError with the server's code, message and details. */
export async function askServer(url: string, path: string, init: RequestInit = {}): Promise<Response> {
  const target = new URL(path, url);
  let response: Response;
  try {
    response = await fetch(target, withKey(init));
  } catch (cause) {
    if (init.signal?.aborted === true) throw new TapedeckError('aborted', 'stopped', { cause });
    throw new TapedeckError(
      'store_unavailable',
      `no server answers at ${target.origin}: start one with "npm start", or name another with --url`,
      { cause },
    );
  }
  if (response.ok) return response;
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<TapedeckError> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; details?: Record<string, unknown> } };
    const code = Object.hasOwn(ERROR_CODES, error.code) ? (error.code as ErrorCode) : 'internal';
    return new TapedeckError(code, error.message, error.details === undefined ? {} : { details: error.details });
  } catch (cause) {
    return new TapedeckError('internal', `the server answered ${response.status}: ${text.slice(0, 500)}`, { cause });
  }
}
