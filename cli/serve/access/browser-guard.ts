/**
 * What keeps pages in a browser on the same machine away from a server without keys. A page of another site may send requests to 127.0.0.1 (it says so in `Origin`), and a
 * page whose host name was re-bound to 127.0.0.1 may even read the answers (its name is in `Host`). Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { fail, ok, type Result } from '../../../base/result.ts';
import { isLoopback } from '../../config.ts';

/** `allowed` are further names, with or without port, under which this server is reached, as through a proxy. */
export function checkHost(host: string | undefined, allowed: readonly string[]): Result<null> {
  if (host === undefined || allowed.includes(host)) return ok(null);
  const name = nameOf(host);
  if (name !== null && (isLoopback(name) || allowed.includes(name))) return ok(null);
  return fail(
    'forbidden',
    `this server has no keys, so it answers on names of this machine only (127.0.0.1, localhost); to use another name, make keys (tapedeck keys create) or list it in TAPEDECK_ALLOWED_HOSTS`,
    'host',
  );
}

/** A request of a page is let through from this server's own pages and from those of the allow-list. */
export function checkOrigin({ origin, host }: Pick<IncomingHttpHeaders, 'origin' | 'host'>, allowed: readonly string[]): Result<null> {
  if (origin === undefined || allowed.includes(origin)) return ok(null);
  if (URL.canParse(origin) && new URL(origin).host === host) return ok(null);
  return fail('forbidden', 'pages of other sites may not ask this server; allow their origin with TAPEDECK_CORS_ORIGINS', 'origin');
}

function nameOf(host: string): string | null {
  const url = `http://${host}`;
  return URL.canParse(url) && !/[/?#@\\]/.test(host) ? new URL(url).hostname.replaceAll(/^\[|\]$/g, '') : null;
}
