import { createHash, timingSafeEqual } from 'node:crypto';
import type { TapedeckError } from '../../../base/errors.ts';
import type { EngineRequest } from './request.ts';
import { refusal } from './wire-error.ts';

export type Credentials = { readonly user: string; readonly password: string };

/** Null when the request carries the one user and password; both are always compared, in constant time. */
export function checkCredentials(request: EngineRequest, expected: Credentials): TapedeckError | null {
  if (request.hasTwoCredentials) {
    return refusal(
      516,
      'AUTHENTICATION_FAILED',
      'Invalid authentication: it is not allowed to use X-ClickHouse headers and basic authentication together',
    );
  }
  const user = isSame(request.user ?? 'default', expected.user);
  const password = isSame(request.password ?? '', expected.password);
  if (user && password) return null;
  return refusal(516, 'AUTHENTICATION_FAILED', 'Authentication failed: password is incorrect, or there is no user with such name');
}

function isSame(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}
