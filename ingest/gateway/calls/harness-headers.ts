/** Headers between harness and upstream: everything passes both ways but what belongs to one connection, to the key, or to a body that changes. */
import type { IncomingHttpHeaders } from 'node:http';
import type { UpstreamHeaders } from '../upstreams/http.ts';
import type { UpstreamSettings } from '../upstreams/settings.ts';

const OF_CONNECTION = new Set(['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings']); // prettier-ignore
const NOT_SENT_ON = new Set([
  ...OF_CONNECTION, 'host', 'content-length', 'content-encoding', 'content-type', 'authorization', 'x-api-key', 'cookie', 'accept-encoding', 'expect', 'idempotency-key', 'x-session-id',
]); // prettier-ignore
const NOT_SENT_BACK = new Set([...OF_CONNECTION, 'content-length', 'content-encoding', 'set-cookie', 'alt-svc']);

export type PlainHeaders = Record<string, string | string[]>;

/** For the upstream: the harness's own, then the upstream's settings, its key and the trace. */
export function upstreamHeaders(headers: IncomingHttpHeaders, settings: UpstreamSettings, trace: string): PlainHeaders {
  const sent: PlainHeaders = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined && !NOT_SENT_ON.has(name)) sent[name] = value;
  sent['content-type'] = 'application/json';
  sent['accept-encoding'] = 'identity';
  if (isHeaderText(trace)) sent[settings.sessionHeader.toLowerCase()] = trace;
  for (const [name, value] of Object.entries(settings.headers)) sent[name.toLowerCase()] = value;
  // a harness of another dialect sends none, and the API refuses to go without
  if (settings.kind === 'anthropic') sent['anthropic-version'] ??= '2023-06-01';
  if (settings.apiKey === null) return sent;
  if (settings.kind === 'anthropic') sent['x-api-key'] = settings.apiKey;
  else sent['authorization'] = `Bearer ${settings.apiKey}`;
  return sent;
}

/** Ids may hold any Unicode; header values may not. */
function isHeaderText(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

/** For the harness: the upstream's own. */
export function harnessHeaders(headers: UpstreamHeaders): PlainHeaders {
  const sent: PlainHeaders = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined && !NOT_SENT_BACK.has(name)) sent[name] = value;
  return sent;
}

export function contentTypeOf(headers: UpstreamHeaders): string {
  const value = headers['content-type'];
  return (Array.isArray(value) ? (value[0] ?? '') : (value ?? '')).split(';', 1)[0]?.trim().toLowerCase() ?? '';
}
