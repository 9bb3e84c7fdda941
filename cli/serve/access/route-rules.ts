/**
 * Who may call which route: the one table. A route that is not in it is refused on a server with keys, and `access.int.test.ts` fails until somebody has decided.
 * Keys are `METHOD pattern` as the route was registered (HEAD counts as GET); prefixes end in `*` and hold for what no other line names.
 */
import { RESOURCES } from '../../../query/lists/resources.ts';
import type { KeyRole } from '../../../store/keys/key-record.ts';

export type RouteRule = {
  /** anyone: no key. gateway: the route checks keys of its own kind (those of rollouts and runs). Else the least role. */
  readonly who: 'anyone' | 'gateway' | KeyRole;
  /**
   * Where the request names its project: that of the key is put there when it names none, another one is refused. key: the route itself takes it from the key. items: each event is judged by itself. none: the answer
   * belongs to no project. default: always the project `default`. server: all projects, so the key must be one for all (`*`).
   */
  readonly project: 'query' | 'body' | 'items' | 'key' | 'default' | 'none' | 'server';
  /** A key of the rollout itself does as well; the route checks it. */
  readonly orGatewayKey?: true;
};

const read = (project: RouteRule['project']): RouteRule => ({ who: 'read', project });
const write = (project: RouteRule['project']): RouteRule => ({ who: 'write', project });
const admin = (project: RouteRule['project']): RouteRule => ({ who: 'admin', project });
const ANYONE: RouteRule = { who: 'anyone', project: 'none' };
const GATEWAY: RouteRule = { who: 'gateway', project: 'none' };

/** What REST lists and fetches, under `GET /v1/`: each names its project in the query. */
const READ_BY_QUERY = [
  ...RESOURCES.map(({ name }) => name),
  'analytics',
  'behind',
  'curves',
  'exports',
  'lineage',
  'live',
  'replay',
  'search',
];

export const ROUTE_RULES: Readonly<Record<string, RouteRule>> = {
  ...Object.fromEntries(
    READ_BY_QUERY.flatMap((name) => [
      [`GET /v1/${name}`, read('query')],
      [`GET /v1/${name}/*`, read('query')],
    ]),
  ),
  'GET /healthz': ANYONE,
  'GET /readyz': ANYONE,
  'GET /metrics': read('server'),
  'GET /docs*': read('none'),
  // questions
  'POST /v1/sql': read('body'),
  // exports read, and keep a file of their own for a while
  'POST /v1/exports': read('body'),
  'DELETE /v1/exports/:id': read('query'),
  // vocabularies belong to no project; they are named by their content
  'GET /v1/tokenizers/:hash': read('none'),
  'PUT /v1/tokenizers/:hash': write('none'),
  'POST /v1/rollouts/events': read('body'),
  'GET /v1/replay/events': read('query'),
  // ClickHouse's own interface
  'GET /clickhouse/ping': ANYONE,
  'GET /ping': ANYONE,
  'POST /': read('key'),
  'GET /clickhouse/replicas_status': ANYONE,
  'GET /clickhouse': read('key'),
  'GET /clickhouse/': read('key'),
  'POST /clickhouse': read('key'),
  'POST /clickhouse/': read('key'),
  // events; each is judged by its own project and type
  'POST /v1/events': write('items'),
  '* /v1/events': write('none'),
  'POST /v1/notes': write('body'),
  'POST /v1/rewards': write('body'),
  // rollouts and their keys
  'POST /v1/rollouts': write('body'),
  'POST /v1/runs/:run/keys': write('body'),
  'POST /v1/rollouts/:rollout/traces': { ...write('body'), orGatewayKey: true },
  'POST /v1/rollouts/:rollout/end': { ...write('body'), orGatewayKey: true },
  // trainer feeds
  'GET /v1/feeds*': read('query'),
  'POST /v1/feeds': write('body'),
  'POST /v1/feeds/*': write('query'),
  'DELETE /v1/feeds/:feed': admin('query'),
  // uploads in the shape of the Prime platform
  'GET /api/v1/*': read('default'),
  'POST /api/v1/*': write('default'),
  'PUT /api/v1/*': write('default'),
  // operations on everything that is stored
  'GET /v1/audit': admin('server'),
  'GET /v1/dead-letters*': admin('server'),
  'POST /v1/dead-letters/retry': admin('server'),
  'POST /v1/compact': admin('server'),
  'POST /v1/rebuild': admin('server'),
};

/** What harnesses call, behind any of the gateway's prefixes. */
const GATEWAY_ROUTE =
  /^(?:\/u\/:upstream|\/k\/:key)*(?:\/inference\/v1\/generate|\/generate|\/v1\/(?:chat\/completions(?:\/tokens)?|completions|embeddings|responses|messages(?:\/count_tokens)?|models))$/;

/** Null: nobody decided about this route. */
export function ruleOf(method: string, pattern: string): RouteRule | null {
  const verb = method === 'HEAD' ? 'GET' : method;
  const exact = ROUTE_RULES[`${verb} ${pattern}`] ?? ROUTE_RULES[`* ${pattern}`];
  if (exact !== undefined) return exact;
  if (GATEWAY_ROUTE.test(pattern)) return GATEWAY;
  let best: { readonly length: number; readonly rule: RouteRule } | null = null;
  for (const [key, rule] of Object.entries(ROUTE_RULES)) {
    if (!key.endsWith('*') || key.startsWith('* ')) continue;
    const prefix = key.slice(0, -1);
    if (`${verb} ${pattern}`.startsWith(prefix) && prefix.length > (best?.length ?? 0)) best = { length: prefix.length, rule };
  }
  return best?.rule ?? null;
}
