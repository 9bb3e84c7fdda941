/** A server with keys: who gets in, to what, and that nobody else does. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { caughtUp } from '../proof.ts';
import { startServer, temporaryFolder } from '../server.ts';
import { Workload } from '../workload.ts';
import { createKey, startKeyedServer, tapedeck, type KeyedServer } from './keyed-server.ts';

const SECRET = 'PROMPT-THAT-NOBODY-LOGS-41c7';
const SQL = { query: 'SELECT project, run, count() AS n FROM rollouts GROUP BY ALL ORDER BY ALL', format: 'ndjson' };

const event = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  v: 1,
  id: randomUUID(),
  type: 'run.started',
  run: `run-${randomUUID()}`,
  time: 1_790_000_000_000_000,
  data: { kind: 'train' },
  ...more,
});

describe('keys', { timeout: 300_000 }, () => {
  let engine: FakeEngine;
  let world: KeyedServer;
  const keyOf = (name: string): string => world.keys[name] as string;

  before(async () => {
    engine = await startFakeEngine();
    world = await startKeyedServer(
      {
        readA: ['--project', 'a', '--role', 'read'],
        writeA: ['--project', 'a', '--role', 'write', '--name', 'trainer of a'],
        adminA: ['--project', 'a', '--role', 'admin'],
        readB: ['--project', 'b'],
        writeB: ['--project', 'b', '--role', 'write'],
        operator: ['--project', '*', '--role', 'admin'],
        slow: ['--project', 'a', '--limit', 'rate=1', '--limit', 'sqlConcurrent=1', '--limit', 'sqlResultRows=2'],
        small: ['--project', 'a', '--role', 'write', '--limit', 'bodyBytes=2000'],
      },
      { TAPEDECK_UPSTREAMS: JSON.stringify({ toy: { kind: 'vllm', url: engine.url } }), TAPEDECK_LOG_LEVEL: 'trace' },
    );
  });
  after(async () => {
    await world.stop();
    await engine.close();
  });

  test('health is open, everything else asks for a key, and every route has been decided', async () => {
    for (const path of ['/healthz', '/readyz']) assert.equal((await world.ask(null, 'GET', path)).status, 200, path);
    const closed = ['/v1/audit', '/v1/dead-letters', '/docs', '/docs/json', '/metrics', '/v1/feeds', '/api/v1/traces', '/nowhere'];
    for (const path of closed) {
      const { status, code, headers } = await world.ask(null, 'GET', path);
      assert.equal(status, 401, path);
      assert.equal(code, 'unauthorized');
      assert.match(headers.get('www-authenticate') ?? '', /Bearer/);
    }
    for (const path of ['/v1/sql', '/v1/events', '/v1/rollouts', '/v1/compact', '/v1/rebuild', '/v1/dead-letters/retry'])
      assert.equal((await world.ask(null, 'POST', path, {})).status, 401, path);
    assert.doesNotMatch(world.server.output(), /has no line in route-rules/);
  });

  test('a key may be a bearer, x-api-key, a Basic password or user, or X-ClickHouse-Key', async () => {
    const key = keyOf('readA');
    const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
    const ways: Record<string, string>[] = [
      { authorization: `Bearer ${key}` },
      { authorization: `bearer ${key}` },
      { 'x-api-key': key },
      { authorization: basic(`anybody:${key}`) },
      { authorization: basic(`${key}:`) },
      { 'x-clickhouse-key': key },
      { 'x-clickhouse-user': key, 'x-clickhouse-key': '' },
    ];
    for (const headers of ways) assert.equal((await world.ask(null, 'GET', '/docs/json', undefined, headers)).status, 200, JSON.stringify(headers)); // prettier-ignore
    for (const wrong of [key.slice(0, -1), `${key}x`, key.toUpperCase(), 'td_', keyOf('readB').replace(/^td_.{10}/, key.slice(0, 13))])
      assert.equal((await world.ask(wrong, 'GET', '/docs/json')).status, 401);
  });

  test('a role may do what the roles before it may, and no more', async () => {
    const may = async (name: string, method: string, path: string, body?: unknown): Promise<number> =>
      (await world.ask(keyOf(name), method, path, body)).status;
    assert.equal(await may('readA', 'POST', '/v1/events', [event()]), 403);
    assert.equal(await may('readA', 'POST', '/v1/rollouts', { run: 'x' }), 403);
    assert.equal(await may('readA', 'POST', '/v1/feeds', { feed: 'f' }), 403);
    assert.equal(await may('writeA', 'POST', '/v1/events', [event()]), 200);
    assert.equal(await may('writeA', 'DELETE', '/v1/feeds/f'), 403);
    assert.equal(await may('adminA', 'DELETE', '/v1/feeds/f'), 404);
    for (const [method, path] of [
      ['GET', '/v1/audit'],
      ['GET', '/v1/dead-letters'],
      ['POST', '/v1/compact'],
      ['POST', '/v1/rebuild'],
    ] as const) {
      assert.equal(await may('writeA', method, path), 403, path);
      assert.equal(await may('adminA', method, path), 403, `${path} is about all projects`);
    }
    assert.equal(await may('operator', 'GET', '/v1/audit'), 200);
    assert.equal(await may('operator', 'GET', '/v1/dead-letters'), 200);
    assert.equal(await may('operator', 'POST', '/v1/dead-letters/retry', { all: true }), 200);
    assert.equal(await may('operator', 'GET', '/metrics'), 200);
  });

  test('events without a project get that of the key, others are refused one by one, and deletion is for admins', async () => {
    const own = event({ run: 'own' });
    const named = event({ run: 'named', project: 'a' });
    const foreign = event({ run: 'foreign', project: 'b' });
    const fallback = event({ run: 'fallback', project: 'default' });
    const deletion = event({ type: 'run.deleted', run: 'gone', data: { reason: 'test' } });
    const sent = await world.ask(keyOf('writeA'), 'POST', '/v1/events', [own, named, foreign, fallback, deletion]);
    const answer = JSON.parse(sent.text) as { accepted: number; rejected: { index: number; code: string; field: string }[] };
    assert.equal(answer.accepted, 2);
    assert.deepEqual(answer.rejected.map(({ index, code, field }) => [index, code, field]), [[2, 'forbidden', 'project'], [3, 'forbidden', 'project'], [4, 'forbidden', 'type']]); // prettier-ignore
    const byAdmin = await world.ask(keyOf('adminA'), 'POST', '/v1/events', [deletion]);
    assert.equal((JSON.parse(byAdmin.text) as { accepted: number }).accepted, 1);
    const again = await world.ask(keyOf('writeA'), 'POST', '/v1/events', [own, named]);
    assert.equal(again.status, 200);
    await operatorCaughtUp(world);
    const rows = await world.ask(keyOf('readA'), 'POST', '/v1/sql', { query: "SELECT run, project FROM runs WHERE run IN ('own', 'named', 'foreign', 'fallback') ORDER BY run", format: 'csv' }); // prettier-ignore
    assert.equal(rows.text, '"run","project"\n"named","a"\n"own","a"\n');
  });

  test('the same Idempotency-Key of another project is another request', async () => {
    const body = JSON.stringify([event({ run: 'idempotent' })]);
    const headers = { 'idempotency-key': 'one' };
    assert.equal((await world.ask(keyOf('writeA'), 'POST', '/v1/events', body, headers)).headers.get('idempotency-replayed'), null);
    assert.equal((await world.ask(keyOf('writeB'), 'POST', '/v1/events', body, headers)).headers.get('idempotency-replayed'), null);
    assert.equal((await world.ask(keyOf('writeA'), 'POST', '/v1/events', body, headers)).headers.get('idempotency-replayed'), 'true');
  });

  test('no question reaches another project, whatever the request says', async () => {
    const a = new Workload(1, { project: 'a', run: 'shared-name' });
    const b = new Workload(2, { project: 'b', run: 'shared-name' });
    assert.equal((await world.ask(keyOf('writeA'), 'POST', '/v1/events', a.rollout())).status, 200);
    assert.equal((await world.ask(keyOf('writeB'), 'POST', '/v1/events', [...b.rollout(), ...b.rollout()])).status, 200);
    await operatorCaughtUp(world);
    const counts = async (name: string, more: Record<string, unknown> = {}): Promise<string> =>
      (await world.ask(keyOf(name), 'POST', '/v1/sql', { ...SQL, ...more })).text;
    assert.equal(await counts('readA'), '{"project":"a","run":"shared-name","n":"1"}\n');
    assert.equal(await counts('readB'), '{"project":"b","run":"shared-name","n":"2"}\n');
    assert.equal(await counts('operator', { project: 'b' }), await counts('readB'));
    for (const project of ['b', 'default', '*', 'A', '', 'a ', 'p_b']) {
      const { status, code, text } = await world.ask(keyOf('readA'), 'POST', '/v1/sql', { ...SQL, project });
      assert.equal(status, 403, text);
      assert.equal(code, 'forbidden');
    }
    const rollout = encodeURIComponent('shared-name/rollout-1');
    const paths = [
      `/v1/runs/shared-name/rollouts`,
      `/v1/rollouts/${rollout}/events?run=shared-name`,
      `/v1/traces/${rollout}%2Ftrace?run=shared-name`,
      '/v1/feeds',
    ];
    for (const path of paths) {
      const other = `${path}${path.includes('?') ? '&' : '?'}project=b`;
      assert.equal((await world.ask(keyOf('readA'), 'GET', other)).status, 403, other);
      assert.equal((await world.ask(keyOf('readA'), 'GET', `${other}&project=a`)).status, 400, other);
      const own = await world.ask(keyOf('readA'), 'GET', path);
      assert.ok(own.status === 404 || (own.status === 200 && !own.text.includes('rollout-1')), `${path}: ${own.status} ${own.text}`);
      assert.equal((await world.ask(keyOf('readB'), 'GET', path)).status, 200, path);
    }
    const { paths: described } = JSON.parse((await world.ask(keyOf('readA'), 'GET', '/docs/json')).text) as {
      paths: Record<string, object>;
    };
    const listed = Object.entries(described).filter(
      ([path, verbs]) => 'get' in verbs && /^\/v1\/(?!audit|dead-letters|models|tokenizers)/.test(path),
    );
    assert.ok(listed.length > 30, String(listed.length));
    for (const [path] of listed) {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => (name === 'run' ? 'shared-name' : '0'));
      const other = await world.ask(keyOf('readA'), 'GET', `${filled}?project=b&run=shared-name`);
      assert.equal(other.status, 403, `${path}: ${other.text}`);
      if (path === '/v1/live') continue; // it never ends
      const own = await world.ask(keyOf('readA'), 'GET', `${filled}?run=shared-name`);
      assert.ok(!own.text.includes('rollout-1') && own.status < 500, `${path}: ${own.status} ${own.text.slice(0, 500)}`);
    }
    const many = { run: 'shared-name', rollouts: ['shared-name/rollout-1'] };
    assert.equal((await world.ask(keyOf('readA'), 'POST', '/v1/rollouts/events', { ...many, project: 'b' })).status, 403);
    assert.ok((await world.ask(keyOf('readA'), 'POST', '/v1/rollouts/events', many)).text.length < 60, 'nothing of b');
    assert.equal((await world.ask(keyOf('readA'), 'GET', '/api/v1/traces')).status, 403, 'uploads are of the project default');
  });

  test('rollouts are minted with a write key; their own keys work at the gateway and for nothing else', async () => {
    const minted = await world.ask(keyOf('writeA'), 'POST', '/v1/rollouts', { run: 'gate', env: { id: 'toy' } });
    assert.equal(minted.status, 201, minted.text);
    const { key, rollout } = JSON.parse(minted.text) as { key: string; rollout: string };
    assert.equal((await world.ask(keyOf('writeA'), 'POST', '/v1/rollouts', { run: 'gate', project: 'b' })).status, 403);
    const call = { model: 'toy', messages: [{ role: 'user', content: SECRET }] };
    assert.equal((await world.ask(key, 'POST', '/v1/chat/completions', call)).status, 200);
    assert.equal((await world.ask(null, 'POST', `/k/${key}/v1/chat/completions`, call)).status, 200);
    assert.equal((await world.ask(key, 'GET', '/v1/models')).status, 200);
    for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses']) {
      assert.equal((await world.ask(keyOf('writeA'), 'POST', path, call)).status, 401, path);
      assert.equal((await world.ask(null, 'POST', path, call)).status, 401, path);
    }
    assert.equal((await world.ask(key, 'POST', '/v1/sql', SQL)).status, 401);
    assert.equal((await world.ask(key, 'POST', '/v1/events', [])).status, 401);
    const other = JSON.parse((await world.ask(keyOf('writeB'), 'POST', '/v1/rollouts', { run: 'gate' })).text) as { rollout: string };
    for (const [who, path, body] of [
      [key, `/v1/rollouts/${other.rollout}/end`, {}],
      [key, `/v1/rollouts/${other.rollout}/traces`, {}],
      [key, `/v1/rollouts/${rollout}/end`, { project: 'b' }],
      [keyOf('writeA'), `/v1/rollouts/${other.rollout}/end`, { project: 'b' }],
    ] as const)
      assert.equal((await world.ask(who, 'POST', path, body)).status, 403, path);
    assert.equal((await world.ask(keyOf('writeA'), 'POST', `/v1/rollouts/${other.rollout}/end`, {})).status, 404, 'not of this project');
    assert.equal((await world.ask(key, 'POST', `/v1/rollouts/${rollout}/traces`, {})).status, 201);
    assert.equal((await world.ask(keyOf('writeA'), 'POST', `/v1/rollouts/${rollout}/end`, {})).status, 200);
  });

  test('limits of a key: rate, body, rows', async () => {
    const rows = await world.ask(keyOf('slow'), 'POST', '/v1/sql', { query: 'SELECT x FROM (SELECT arrayJoin(range(10)) AS x)' });
    assert.equal(rows.code, 'result_too_large', rows.text);
    const many = await Promise.all(Array.from({ length: 20 }, () => world.ask(keyOf('slow'), 'GET', '/docs/json')));
    const refused = many.filter(({ status }) => status === 429);
    assert.ok(refused.length >= 10, String(refused.length));
    for (const { code, headers } of refused) {
      assert.equal(code, 'rate_limited');
      assert.equal(headers.get('retry-after'), '1');
    }
    assert.equal((await world.ask(keyOf('readA'), 'GET', '/docs/json')).status, 200, 'each key counts for itself');
    assert.equal((await world.ask(keyOf('small'), 'POST', '/v1/events', [event()])).status, 200);
    assert.equal(
      (
        await world.ask(
          keyOf('small'),
          'POST',
          '/v1/events',
          Array.from({ length: 20 }, () => event()),
        )
      ).code,
      'body_too_large',
    );
  });

  test('a key that is revoked ends within a second, one that is made works as soon', async () => {
    const key = await createKey(world.data, '--project', 'a');
    const becomes = async (status: number): Promise<void> => {
      for (let left = 200; (await world.ask(key, 'GET', '/docs/json')).status !== status; left--) {
        assert.ok(left > 0, `never ${status}`);
        await sleep(50);
      }
    };
    await becomes(200);
    const { code } = await tapedeck(['keys', 'revoke', key.slice(3, 13)], { TAPEDECK_DATA: world.data });
    assert.equal(code, 0);
    await becomes(401);
    assert.match((await world.ask(key, 'GET', '/docs/json')).text, /revoked/);
    const { out } = await tapedeck(['keys', 'list'], { TAPEDECK_DATA: world.data });
    assert.match(out, new RegExp(`${key.slice(3, 13)}  revoked  read  a`));
    assert.ok(!out.includes(key.slice(14)));
  });

  test('commands send TAPEDECK_KEY, and their server tells them what is missing', async () => {
    const env = { TAPEDECK_URL: world.server.url };
    const query = ['sql', 'SELECT count() AS n FROM rollouts', '--format', 'csv'];
    const without = await tapedeck(query, env);
    assert.equal(without.code, 1);
    assert.match(without.err, /API key/);
    const { out, code } = await tapedeck(query, { ...env, TAPEDECK_KEY: keyOf('readB') });
    assert.equal(code, 0);
    assert.equal(out, '"n"\n3\n');
    const audited = await tapedeck(['audit'], { ...env, TAPEDECK_KEY: keyOf('operator') });
    assert.match(audited.out, /^partition +first/, audited.err);
    const shown = await tapedeck(['config'], { TAPEDECK_KEY: keyOf('readB') });
    assert.ok(!shown.out.includes(keyOf('readB')), 'config prints no key');
  });

  test('neither log nor audit trail holds a key or a prompt; the trail says who did what', async () => {
    await world.ask(keyOf('readA'), 'POST', '/v1/sql', { query: `SELECT '${SECRET}' AS x FROM nope` });
    await world.ask(keyOf('readA'), 'POST', '/v1/sql', `{"query": "${SECRET}`);
    await world.ask(keyOf('writeA'), 'POST', '/v1/events', `[{"id": "${SECRET}"`);
    await world.ask(keyOf('writeA'), 'GET', `/${SECRET}?key=${keyOf('readB')}`);
    const trail = join(world.data, 'audit.log');
    let text = '';
    for (let left = 600; !/"event":"used"[^\n]*"route":"\/v1\/sql"/.test(text); left--) {
      assert.ok(left > 0, text.slice(-2000));
      await sleep(100);
      text = readFileSync(trail, 'utf8');
    }
    assert.equal(statSync(trail).mode & 0o777, 0o600);
    const entries = text.trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>); // prettier-ignore
    const idOf = (name: string): string => keyOf(name).slice(3, 13);
    const has = (wanted: Record<string, unknown>): boolean =>
      entries.some((entry) => Object.entries(wanted).every(([field, value]) => entry[field] === value));
    assert.ok(has({ event: 'key.created', key: idOf('writeA'), name: 'trainer of a' }));
    assert.ok(has({ event: 'key.revoked' }));
    assert.ok(has({ event: 'admin', key: idOf('operator'), route: '/v1/dead-letters/retry', method: 'POST' }));
    assert.ok(has({ event: 'used', key: idOf('readA'), route: '/v1/sql', status: 200 }));
    assert.ok(has({ event: 'refused', key: null, status: 401 }));
    assert.ok(has({ event: 'refused', key: null, route: '/v1/compact', status: 403 }) || has({ event: 'refused', route: '/v1/compact', status: 401 })); // prettier-ignore
    for (const written of [text, world.server.output(), readFileSync(join(world.data, 'keys.json'), 'utf8')]) {
      assert.ok(!written.includes(SECRET), 'a prompt was written');
      for (const [name, key] of Object.entries(world.keys)) assert.ok(!written.includes(key.slice(14)), `${name} was written`);
      assert.ok(!written.includes('sk-td-'), 'a key of the gateway was written');
    }
  });
});

async function operatorCaughtUp(world: KeyedServer): Promise<void> {
  await caughtUp(world.server.url, 120_000, world.keys['operator']);
}

test('off loopback, and where keys are required, nothing starts without a usable key', { timeout: 120_000 }, async () => {
  const folder = temporaryFolder('security-open');
  try {
    const start = (env: Record<string, string>) => startServer({ TAPEDECK_DATA: folder.path, ...env });
    await assert.rejects(start({ TAPEDECK_HOST: '0.0.0.0' }), /address_refused/);
    await assert.rejects(start({ TAPEDECK_REQUIRE_KEYS: 'true' }), /address_refused/);
    const key = await createKey(folder.path);
    await tapedeck(['keys', 'revoke', key], { TAPEDECK_DATA: folder.path });
    await assert.rejects(start({ TAPEDECK_HOST: '0.0.0.0' }), /no usable key/);
    await createKey(folder.path, '--project', '*', '--role', 'admin');
    const server = await start({ TAPEDECK_HOST: '0.0.0.0' });
    assert.match(server.output(), /clear text/);
    assert.equal((await fetch(`${server.url}/v1/audit`)).status, 401);
    await server.kill('tree');
  } finally {
    folder.remove();
  }
});
