/** The check at the edge and its trail, over a server in this process: what a whole server shows only with much effort. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import type { Clock } from '../../../base/clock.ts';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import { openServer } from '../../../ingest/http/server.ts';
import type { KeyRecord } from '../../../store/keys/key-record.ts';
import { hashOfToken, newToken } from '../../../store/keys/token.ts';
import { guardAccess } from './access.ts';
import { openAuditTrail, type AuditTrail } from './audit-trail.ts';

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-access-'));
});
after(() => rm(folder, { recursive: true, force: true }));

/** Time stands still, so that buckets are not filled again. */
const still: Clock = { ...systemClock, monotonicMs: () => 0 };

function keyFor(more: Partial<KeyRecord>): { readonly token: string; readonly record: KeyRecord } {
  const { id, token } = newToken(systemRandom);
  const record = { id, name: '', project: '*', role: 'admin' as const, hash: hashOfToken(token), created: 1, expires: null, revoked: null, limits: {} }; // prettier-ignore
  return { token, record: { ...record, ...more } };
}

const newTrail = (file: string): AuditTrail => openAuditTrail({ file, clock: systemClock, onProblem: () => {} });

type World = { readonly app: FastifyInstance; readonly audit: AuditTrail; readonly undecided: string[]; close(): Promise<void> };

/** A server with the real check; what its routes did is theirs to say. */
async function open(
  records: readonly KeyRecord[],
  options: { keyRate?: number; openMetrics?: boolean; file?: string } = {},
): Promise<World> {
  const audit = newTrail(options.file ?? join(folder, 'audit.log'));
  const undecided: string[] = [];
  const ring = { keys: () => new Map(records.map((record) => [record.id, record])), close: async () => {} };
  const app = await openServer({
    clock: still,
    random: systemRandom,
    logger: pino({ level: 'silent' }),
    guard: (server) =>
      guardAccess(server, {
        ring, clock: still, audit, keyRate: options.keyRate ?? 0, openMetrics: options.openMetrics ?? false, allowedHosts: [], corsOrigins: [],
        onUndecided: (route) => undecided.push(route),
      }), // prettier-ignore
  });
  return { app, audit, undecided, close: async () => { await app.close(); await audit.close(); } }; // prettier-ignore
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

test('a key without a rate of its own has that of the server, and its own can only be lower', async () => {
  const [plain, slow, fast] = [keyFor({}), keyFor({ limits: { rate: 1 } }), keyFor({ limits: { rate: 1000 } })];
  const world = await open([plain.record, slow.record, fast.record], { keyRate: 3 });
  world.app.get('/v1/audit', async () => 'ok');
  try {
    for (const [key, most] of [[plain, 6], [slow, 2], [fast, 6]] as const) {
      const answers = [];
      for (let each = 0; each < 10; each++) answers.push(await world.app.inject({ url: '/v1/audit', headers: bearer(key.token) }));
      assert.equal(answers.filter(({ statusCode }) => statusCode === 200).length, most);
      const refused = answers.at(-1);
      assert.equal(refused?.statusCode, 429);
      assert.equal(refused?.headers['retry-after'], '1');
    } // prettier-ignore
  } finally {
    await world.close();
  }
});

test('metrics are open where the settings say so, and nothing else with them', async () => {
  for (const openMetrics of [true, false]) {
    const world = await open([keyFor({}).record], { openMetrics });
    world.app.get('/metrics', async () => 'ok');
    world.app.get('/v1/audit', async () => 'ok');
    try {
      assert.equal((await world.app.inject({ url: '/metrics' })).statusCode, openMetrics ? 200 : 401);
      assert.equal((await world.app.inject({ url: '/v1/audit' })).statusCode, 401);
    } finally {
      await world.close();
    }
  }
});

test('a key with a limit on bodies is refused before a body is read, and may not hide its length', async () => {
  const key = keyFor({ limits: { bodyBytes: 10 } });
  const world = await open([key.record]);
  world.app.post('/v1/compact', async () => 'ok');
  const post = (payload: string, headers: Record<string, string> = {}) =>
    world.app.inject({ method: 'POST', url: '/v1/compact', payload, headers: { ...bearer(key.token), 'content-type': 'text/plain', ...headers } });
  try {
    assert.equal((await post('"12345678901"')).statusCode, 413);
    const chunked = await post('1', { 'transfer-encoding': 'chunked' });
    assert.equal(chunked.statusCode, 400);
    assert.match(chunked.body, /Content-Length/);
  } finally {
    await world.close();
  }
}); // prettier-ignore

test('a route that nobody has decided about is for nobody', async () => {
  const key = keyFor({});
  const world = await open([key.record]);
  world.app.get('/v1/forgotten', async () => 'ok');
  try {
    assert.equal((await world.app.inject({ url: '/v1/forgotten', headers: bearer(key.token) })).statusCode, 403);
    assert.ok(world.undecided.includes('GET /v1/forgotten'));
  } finally {
    await world.close();
  }
});

test('an admin action is written down before it is carried out, and not carried out when it cannot be', async () => {
  const key = keyFor({});
  const place = join(folder, 'a folder');
  await mkdir(place);
  for (const file of [join(folder, 'admin.log'), place]) {
    const world = await open([key.record], { file });
    let written = '';
    let done = 0;
    world.app.post('/v1/compact', async () => {
      done++;
      written = await readFile(file, 'utf8');
      return 'ok';
    });
    try {
      const answer = await world.app.inject({ method: 'POST', url: '/v1/compact?secret=x', headers: bearer(key.token) });
      if (file === place) {
        assert.equal(answer.statusCode, 503);
        assert.match(answer.body, /audit trail/);
        assert.equal(done, 0);
      } else {
        assert.equal(answer.statusCode, 200);
        const entry = JSON.parse(written) as Record<string, unknown>;
        assert.deepEqual([entry['event'], entry['key'], entry['route']], ['admin', key.record.id, '/v1/compact']);
        assert.ok(!written.includes('secret') && !written.includes(key.token));
      }
    } finally {
      await world.close();
    }
  }
});

test('uses are counted by key, route, status and address; the route is a pattern, and the file for its owner only', async () => {
  const key = keyFor({ role: 'read', project: 'a' });
  const file = join(folder, 'uses.log');
  const world = await open([key.record], { file });
  world.app.get('/v1/traces/:id', async () => 'ok');
  for (const id of ['secret-1', 'secret-2', 'secret-3']) await world.app.inject({ url: `/v1/traces/${id}`, headers: bearer(key.token) });
  await world.app.inject({ url: '/v1/traces/secret-4' });
  await world.close();
  const text = await readFile(file, 'utf8');
  assert.ok(!text.includes('secret'), text);
  const entries = text.trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>); // prettier-ignore
  assert.deepEqual(
    entries.map(({ event, key: who, route, status, count }) => [event, who, route, status, count]),
    [['used', key.record.id, '/v1/traces/:id', 200, 3], ['refused', null, '/v1/traces/:id', 401, 1]],
  ); // prettier-ignore
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test('at 64 MiB the trail is put aside, and nine old ones stay', async () => {
  const file = join(await mkdtemp(join(folder, 'rotated-')), 'audit.log');
  const old = Array.from({ length: 12 }, (_, at) => `${file}.2020-01-${String(at + 1).padStart(2, '0')}`);
  for (const each of old) await writeFile(each, 'x');
  await writeFile(file, '');
  const trail = newTrail(file);
  const act = () => trail.admin({ key: 'k', project: 'p', method: 'POST', route: '/v1/compact', address: '::1' });
  await truncate(file, 64 * 1024 * 1024 - 1);
  await act();
  const names = async () => (await readdir(join(file, '..'))).toSorted();
  assert.equal((await names()).length, 13, 'one byte is missing');
  await act();
  const left = await names();
  assert.equal(left.length, 10);
  assert.ok(!left.includes('audit.log.2020-01-04') && left.includes('audit.log.2020-01-05'), left.join(' '));
  assert.ok((await stat(file)).size < 1000);
  await trail.close();
  const broken = newTrail(join(folder, 'a folder'));
  await assert.rejects(broken.admin({ key: 'k', project: 'p', method: 'POST', route: '/', address: '::1' }), (error) =>
    isTapedeckError(error, 'not_writable'),
  );
  await broken.close();
});
