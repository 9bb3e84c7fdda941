import type { IncomingHttpHeaders } from 'node:http';

/** One HTTP request in ClickHouse's terms: what its URL and headers say. */
export type EngineRequest = {
  readonly path: string;
  readonly isGet: boolean;
  readonly user: string | null;
  readonly password: string | null;
  readonly hasTwoCredentials: boolean;
  readonly query: string;
  readonly database: string | null;
  readonly queryId: string | null;
  readonly session: { readonly id: string; readonly timeoutS: number; readonly mustExist: boolean } | null;
  readonly format: string | null;
  /** Typed parameters, raw: ClickHouse's escaped text form. */
  readonly parameters: ReadonlyMap<string, string>;
  /** Everything else in the URL: settings of the engine, checked by `checkSettings`. */
  readonly settings: ReadonlyMap<string, string>;
  /** Format and structure of external tables by name. */
  readonly external: ReadonlyMap<string, { readonly format?: string; readonly structure?: string; readonly types?: string }>;
  readonly waitsForEnd: boolean;
  readonly holdBytes: number | null;
  readonly wantsFrames: boolean;
  readonly sendsFrames: boolean;
  readonly acceptEncoding: string;
  readonly mayCompress: boolean;
  readonly contentEncoding: string;
  readonly contentType: string;
  /** The name of a file in the inbox that holds the body: our own driver, on the same machine, saves the way through the socket. */
  readonly inboxFile: string | null;
  /** The JavaScript client reports an error behind the first bytes only when the response ends cleanly; every other client when it does not. */
  readonly endsErrorsCleanly: boolean;
};

/** Parameters of the interface itself that say nothing to this engine: it has no roles, quotas, progress headers or native protocol. */
const IGNORED = new Set([
  'role',
  'quota_key',
  'stacktrace',
  'client_protocol_version',
  'send_progress_in_http_headers',
  'http_headers_progress_interval_ms',
  'network_compression_method',
  'http_zlib_compression_level',
  'cancel_http_readonly_queries_on_client_close',
  'http_make_head_request',
]);
const EXTERNAL = /^(.+)_(format|structure|types)$/;
const MAX_SESSION_TIMEOUT_S = 3600;
const DEFAULT_SESSION_TIMEOUT_S = 60;

/** Fields of a form, which add to those of the URL, and the names of its files, whose `<name>_format` and the like are not settings. */
export type FormFields = { readonly fields: ReadonlyMap<string, string>; readonly files: readonly string[] };

export function readRequest(method: string, target: string, headers: IncomingHttpHeaders, form?: FormFields): EngineRequest {
  const url = new URL(target, 'http://engine');
  const given = new Map<string, string>(url.searchParams);
  for (const [name, value] of form?.fields ?? []) given.set(name, value);
  const header = (name: string): string | null => {
    const value = headers[name];
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const take = (name: string): string | null => {
    const value = given.get(name) ?? null;
    given.delete(name);
    return value;
  };
  const isOn = (name: string): boolean => isTrue(take(name));
  const basic = basicCredentials(header('authorization'));
  const keyed = header('x-clickhouse-user') !== null || header('x-clickhouse-key') !== null;
  const urlUser = take('user');
  const urlPassword = take('password');
  const sessionId = take('session_id');
  const timeoutS = Number(take('session_timeout') ?? DEFAULT_SESSION_TIMEOUT_S);
  const mustExist = isOn('session_check');
  const compression = take('enable_http_compression');
  const bufferSize = take('buffer_size');
  const external = takeExternal(given, form?.files ?? []);
  const parameters = takeParameters(given);
  for (const name of IGNORED) given.delete(name);
  return {
    path: url.pathname,
    isGet: method === 'GET' || method === 'HEAD',
    user: header('x-clickhouse-user') ?? basic?.user ?? urlUser,
    password: header('x-clickhouse-key') ?? basic?.password ?? urlPassword,
    hasTwoCredentials: basic !== null && keyed,
    query: take('query') ?? '',
    database: header('x-clickhouse-database') ?? take('database'),
    queryId: take('query_id') ?? header('x-clickhouse-query-id'),
    session: sessionId === null || sessionId === '' ? null : { id: sessionId, timeoutS: clampTimeout(timeoutS), mustExist },
    format: header('x-clickhouse-format') ?? take('default_format'),
    parameters,
    external,
    waitsForEnd: isOn('wait_end_of_query'),
    holdBytes: bufferSize === null ? null : Number(bufferSize),
    wantsFrames: isOn('compress'),
    sendsFrames: isOn('decompress'),
    acceptEncoding: header('accept-encoding') ?? '',
    mayCompress: compression === null || isTrue(compression),
    contentEncoding: header('content-encoding') ?? '',
    contentType: header('content-type') ?? '',
    inboxFile: header('x-tapedeck-inbox-file'),
    endsErrorsCleanly: (header('user-agent') ?? '').startsWith('clickhouse-js'),
    // Last, when all that is not a setting has been taken; a header may have hidden a parameter of the same meaning.
    settings: withoutNames(given, ['database', 'default_format', 'query_id']),
  };
}

function isTrue(value: string | null): boolean {
  return value === '1' || value === 'true';
}

function clampTimeout(seconds: number): number {
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 1), MAX_SESSION_TIMEOUT_S) : DEFAULT_SESSION_TIMEOUT_S;
}

function takeParameters(given: Map<string, string>): Map<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of given) {
    if (!name.startsWith('param_')) continue;
    parameters.set(name.slice('param_'.length), value);
    given.delete(name);
  }
  return parameters;
}

function takeExternal(given: Map<string, string>, files: readonly string[]): Map<string, Record<string, string>> {
  const external = new Map<string, Record<string, string>>(files.map((file) => [file, {}]));
  for (const [name, value] of given) {
    const match = EXTERNAL.exec(name);
    const table = match ? external.get(match[1] as string) : undefined;
    if (!match || !table) continue;
    table[match[2] as string] = value;
    given.delete(name);
  }
  return external;
}

function withoutNames(given: ReadonlyMap<string, string>, names: readonly string[]): Map<string, string> {
  return new Map([...given].filter(([name]) => !names.includes(name)));
}

function basicCredentials(authorization: string | null): { user: string; password: string } | null {
  const match = /^Basic\s+(\S+)$/i.exec(authorization ?? '');
  if (!match) return null;
  const text = Buffer.from(match[1] as string, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? { user: text, password: '' } : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}
