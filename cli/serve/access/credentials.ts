/** The API key that a request carries, in any of the ways that clients know. Pure, except that it takes the key away: nothing behind the check sees or logs it. */
import type { IncomingHttpHeaders } from 'node:http';
import { TOKEN_PREFIX } from '../../../store/keys/token.ts';

export type Presented = {
  readonly token: string;
  /** Basic: browsers send it by themselves, so who asks may be a page of another site. */
  readonly how: 'bearer' | 'basic' | 'header';
};

const KEY_HEADERS = ['x-api-key', 'x-clickhouse-key'] as const;

/**
 * `Authorization: Bearer`, `Basic` (the password, or the user where no password is given), `x-api-key`, `X-ClickHouse-Key`, and `X-ClickHouse-User` where it is a key.
 * Null: none.
 */
export function presentedKey(headers: IncomingHttpHeaders): Presented | null {
  const [, scheme = '', value = ''] = /^(\S+)\s+(\S+)\s*$/.exec(headers.authorization ?? '') ?? [];
  if (scheme.toLowerCase() === 'bearer') return { token: value, how: 'bearer' };
  if (scheme.toLowerCase() === 'basic') {
    const token = keyOfBasic(value);
    if (token !== null) return { token, how: 'basic' };
  }
  for (const name of KEY_HEADERS) {
    const token = headers[name];
    if (typeof token === 'string' && token !== '') return { token, how: 'header' };
  }
  const user = headers['x-clickhouse-user'];
  return typeof user === 'string' && user.startsWith(TOKEN_PREFIX) ? { token: user, how: 'header' } : null;
}

/** Takes API keys out of the headers; keys of the gateway stay for the gateway. */
export function withoutKeys(headers: IncomingHttpHeaders): void {
  delete headers.authorization;
  delete headers['x-clickhouse-user'];
  for (const name of KEY_HEADERS) delete headers[name];
}

function keyOfBasic(value: string): string | null {
  const text = Buffer.from(value, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  const user = colon < 0 ? text : text.slice(0, colon);
  const password = colon < 0 ? '' : text.slice(colon + 1);
  return password !== '' ? password : user.startsWith(TOKEN_PREFIX) ? user : null;
}
