/** The edge beside keys: pages in browsers, other host names, TLS, and addresses in requests, which are never called. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PeerCertificate, TLSSocket } from 'node:tls';
import { describe, test } from 'node:test';
import { startFakeEngine } from '../fake-engine/engine.ts';
import { startServer, temporaryFolder } from '../server.ts';
import { startKeyedServer, tapedeck } from './keyed-server.ts';
import { selfSigned } from './self-signed.ts';

type Plain = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string };

/** With headers that `fetch` would not send. */
function ask(
  url: string,
  headers: Record<string, string>,
  options: { readonly method?: string; readonly body?: string } = {},
): Promise<Plain> {
  const { promise, resolve, reject } = Promise.withResolvers<Plain>();
  const asked = httpRequest(url, { method: options.method ?? 'GET', headers }, (answer) => {
    let text = '';
    answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
    answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
  });
  asked.on('error', reject);
  asked.end(options.body);
  return promise;
}

test('a server without keys answers this machine only: not a re-bound name, not a page of another site', { timeout: 180_000 }, async () => {
  const folder = temporaryFolder('security-browser');
  const server = await startServer({
    TAPEDECK_DATA: folder.path,
    TAPEDECK_ALLOWED_HOSTS: 'box.example.org',
    TAPEDECK_CORS_ORIGINS: 'https://ui.example.org',
  });
  try {
    await server.ready();
    const { host } = new URL(server.url);
    const at = (path: string, headers: Record<string, string>, method = 'GET') => ask(server.url + path, headers, { method });
    for (const name of [host, 'localhost:80', '127.0.0.1', '[::1]:7070', 'box.example.org', 'box.example.org:8080'])
      assert.equal((await at('/v1/feeds', { host: name })).status, 200, name);
    for (const name of [
      'evil.example',
      `evil.example:${new URL(server.url).port}`,
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '0.0.0.0',
      '10.0.0.1',
      'localhost@evil.example',
      'evil.example#localhost',
    ]) {
      const { status } = await at('/v1/feeds', { host: name });
      assert.ok(status === 403 || status === 400, `${name}: ${status}`);
    }
    // requests that a page can send without asking first
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1', `https://${host}.evil.example`, 'file://']) {
      for (const path of ['/v1/compact', '/v1/rebuild', '/v1/dead-letters/retry'])
        assert.equal((await at(path, { origin, 'content-type': 'text/plain' }, 'POST')).status, 403, `${origin} ${path}`);
      const { status, headers } = await at('/v1/feeds', { origin });
      assert.equal(status, 403);
      assert.equal(headers['access-control-allow-origin'], undefined, origin);
    }
    assert.equal((await at('/v1/feeds', { origin: `http://${host}` })).status, 200, 'its own pages');
    const listed = await at('/v1/feeds', { origin: 'https://ui.example.org' });
    assert.equal(listed.headers['access-control-allow-origin'], 'https://ui.example.org');
    const preflight = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization, content-type' };
    const allowed = await at('/v1/sql', { origin: 'https://ui.example.org', ...preflight }, 'OPTIONS');
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers['access-control-allow-credentials'], undefined);
    const refused = await at('/v1/sql', { origin: 'https://evil.example', ...preflight }, 'OPTIONS');
    assert.notEqual(refused.headers['access-control-allow-origin'], 'https://evil.example');
  } finally {
    await server.kill('tree');
    folder.remove();
  }
});

test(
  'with keys any host name will do, but a key that a browser sends by itself is no good from another site',
  { timeout: 180_000 },
  async () => {
    const world = await startKeyedServer({ operator: ['--project', '*', '--role', 'admin'] });
    try {
      const key = world.keys['operator'] as string;
      const basic = { authorization: `Basic ${Buffer.from(`me:${key}`).toString('base64')}` };
      const url = `${world.server.url}/v1/feeds`;
      assert.equal((await ask(url, { host: 'tapedeck.example.org', ...basic })).status, 200);
      assert.equal((await ask(url, { host: 'tapedeck.example.org', origin: 'https://tapedeck.example.org', ...basic })).status, 200);
      assert.equal((await ask(url, { origin: 'https://evil.example', ...basic })).status, 403);
      assert.equal(
        (await ask(url, { origin: 'https://evil.example', authorization: `Bearer ${key}` })).status,
        200,
        'no browser sends that by itself',
      );
      const closed = await ask(url, { origin: 'https://evil.example', 'access-control-request-method': 'POST' }, { method: 'OPTIONS' });
      assert.equal(closed.headers['access-control-allow-origin'], undefined, 'CORS is closed');
      const big = await ask(url, { authorization: `Bearer ${key}`, 'x-padding': 'x'.repeat(20_000) });
      assert.equal(big.status, 431, 'headers are limited to 16 KiB');
    } finally {
      await world.stop();
    }
  },
);

describe('TLS', { timeout: 180_000 }, () => {
  test('by files, and a renewed certificate is taken without a restart', async () => {
    const folder = temporaryFolder('security-tls');
    const file = (name: string): string => join(folder.path, name);
    const write = (name: string): string => {
      const { cert, key } = selfSigned(name);
      writeFileSync(file('cert.pem'), cert);
      writeFileSync(file('key.pem'), key);
      return cert;
    };
    const first = write('first');
    const settings = { TAPEDECK_DATA: file('data'), TAPEDECK_TLS_CERT: file('cert.pem'), TAPEDECK_TLS_KEY: file('key.pem') };
    const server = await startServer(settings);
    try {
      assert.match(server.url, /^https:/);
      assert.equal((await secure(`${server.url}/healthz`, first)).name, 'first');
      await assert.rejects(secure(`${server.url}/healthz`, selfSigned('other').cert), 'a certificate nobody trusts');
      await assert.rejects(ask(server.url.replace('https', 'http'), {}), 'nothing answers in clear');
      const { out, code } = await tapedeck(['feed', 'list'], { TAPEDECK_URL: server.url, NODE_EXTRA_CA_CERTS: file('cert.pem') });
      assert.equal(code, 0, out);
      const second = write('second');
      for (let left = 300; (await secure(`${server.url}/healthz`, first, second)).name !== 'second'; left--) {
        assert.ok(left > 0, 'the old certificate is still served');
        await sleep(200);
      }
      writeFileSync(file('key.pem'), selfSigned('unfit').key);
      await sleep(6_000);
      assert.equal((await secure(`${server.url}/healthz`, second)).name, 'second', 'a pair that does not fit changes nothing');
    } finally {
      await server.kill('tree');
    }
    await assert.rejects(startServer(settings), /config_invalid/);
    folder.remove();
  });
});

function secure(url: string, ...ca: readonly string[]): Promise<{ readonly status: number; readonly name: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; name: string }>();
  const asked = httpsRequest(url, { ca: [...ca], agent: false }, (answer) => {
    const { subject } = (answer.socket as TLSSocket).getPeerCertificate() as PeerCertificate;
    answer.resume();
    answer.on('end', () => resolve({ status: answer.statusCode ?? 0, name: String(subject.CN) }));
  });
  asked.on('error', reject);
  asked.end();
  return promise;
}

/** A server that nobody has a reason to call. */
async function canary(): Promise<{ readonly url: string; readonly calls: string[]; close(): void }> {
  const calls: string[] = [];
  const server = createServer((request, answer) => {
    calls.push(`${request.method} ${request.url}`);
    answer.end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, close: () => server.close() };
}

const TABLE_FUNCTIONS = [
  "SELECT * FROM url('http://$HOST/x', 'CSV', 'a String')",
  "SELECT * FROM s3('http://$HOST/b/x.csv', 'CSV', 'a String')",
  "SELECT * FROM remote('$HOST', 'default.t')",
  "SELECT * FROM urlCluster('c', 'http://$HOST', 'CSV', 'a String')",
  "CREATE TABLE t (a String) ENGINE = URL('http://$HOST', 'CSV')",
  "INSERT INTO FUNCTION url('http://$HOST', 'CSV', 'a String') SELECT '1'",
  "SELECT * FROM executable('curl http://$HOST', 'CSV', 'a String')",
];

type Described = {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: {
    readonly content?: Readonly<Record<string, { readonly schema?: { readonly properties?: Readonly<Record<string, unknown>> } }>>;
  };
};

/** Sends the address in every parameter, path and body field of every route that the server describes. */
async function everywhere(server: string, address: string, more: Readonly<Record<string, string>>): Promise<void> {
  const { paths } = (await (await fetch(`${server}/docs/json`)).json()) as { paths: Record<string, Record<string, Described>> };
  const routes = Object.entries(paths).flatMap(([path, verbs]) => Object.entries(verbs).map(([verb, its]) => ({ path, verb, its })));
  assert.ok(routes.length > 50, String(routes.length));
  for (const { path, verb, its } of routes) {
    if (path === '/v1/rebuild') continue; // takes nothing, and works for long
    const url = new URL(path.replaceAll(/\{\w+\}/g, encodeURIComponent(address)), server);
    for (const { name } of its.parameters?.filter((parameter) => parameter.in === 'query') ?? []) url.searchParams.set(name, address);
    const fields = Object.keys(Object.values(its.requestBody?.content ?? {})[0]?.schema?.properties ?? {});
    const body = JSON.stringify({ ...more, ...Object.fromEntries(fields.map((name) => [name, address])) });
    const sent = verb === 'get' ? {} : { headers: { 'content-type': 'application/json' }, body };
    // answers that never end are left after a while
    await fetch(url, { method: verb.toUpperCase(), signal: AbortSignal.timeout(10_000), ...sent }).then(
      (answer) => answer.body?.cancel(),
      () => undefined,
    );
  }
}

test('no address in a request is ever called: upstreams come from the settings only', { timeout: 300_000 }, async () => {
  const bait = await canary();
  const engine = await startFakeEngine();
  const folder = temporaryFolder('security-ssrf');
  const upstreams = JSON.stringify({ toy: { kind: 'vllm', url: engine.url } });
  const server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_UPSTREAMS: upstreams });
  try {
    await server.ready();
    const post = async (path: string, body: unknown, headers: Record<string, string> = {}): Promise<{ status: number; text: string }> => {
      const answer = await fetch(server.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
      return { status: answer.status, text: await answer.text() };
    };
    const where = { base_url: bait.url, baseUrl: bait.url, url: bait.url, upstream: bait.url, api_base: bait.url, uri: bait.url };
    const minted = await post('/v1/rollouts', { run: 'r', env: { id: 'toy', args: where } });
    const { key } = JSON.parse(minted.text) as { key: string };
    const authorization = `Bearer ${key}`;
    for (const body of [where, { run: 'r', ...where }, { run: 'r', env: { id: 'toy' }, upstreams: { toy: where } }])
      await post('/v1/rollouts', body);
    const call = { model: 'toy', messages: [{ role: 'user', content: 'hi' }] };
    const image = [
      { type: 'image_url', image_url: { url: `${bait.url}/image.png` } },
      { type: 'text', text: bait.url },
    ];
    const hops = { 'x-upstream': bait.url, 'x-forwarded-host': new URL(bait.url).host, forwarded: `host=${new URL(bait.url).host}` };
    for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses', '/generate']) {
      await post(path, { ...call, ...where, max_tokens: 5, input: 'hi', text: 'hi' }, { authorization, ...hops });
      await post(
        path,
        { ...call, max_tokens: 5, messages: [{ role: 'user', content: image }], input: [{ role: 'user', content: image }] },
        { authorization },
      );
      await post(`/u/${encodeURIComponent(bait.url)}${path}`, call, { authorization });
      await post(path, { ...call, model: bait.url }, { authorization });
    }
    for (const query of TABLE_FUNCTIONS.map((text) => text.replaceAll('$HOST', new URL(bait.url).host))) {
      assert.notEqual((await post('/v1/sql', { query })).status, 200, query);
      assert.notEqual((await fetch(`${server.url}/clickhouse/`, { method: 'POST', body: query })).status, 200, query);
    }
    await everywhere(server.url, bait.url, where);
    await post('/v1/feeds', { feed: 'f', spec: { ...where, algorithm: { module: `${bait.url}/a.mjs`, name: `${bait.url}/a.mjs` } } });
    await post('/v1/events', [
      {
        v: 1,
        id: '0198c0de-0000-7000-8000-000000000001',
        type: 'policy.published',
        run: 'r',
        time: 1,
        data: { version: 1, step: 1, uri: `${bait.url}/weights` },
      },
    ]);
    await sleep(1_000);
    assert.deepEqual(bait.calls, []);
    assert.equal((await post('/v1/chat/completions', call, { authorization })).status, 200, 'the upstream of the settings is');
  } finally {
    await server.kill('tree');
    await engine.close();
    bait.close();
    folder.remove();
  }
});
