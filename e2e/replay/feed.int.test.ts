/** Batches of a feed, given again: as files, to a trainer that speaks the protocol, and the same groups under another algorithm. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { world } from '../../trainer-feed/feed/feed-world.ts';
import { findFreePort } from '../gateway/free-port.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { tapedeck } from './recorded-program.ts';

type Leased = { readonly n: number; readonly batchId: string; readonly token: number; readonly planId: string; readonly end?: boolean };

describe('the replay of a feed', () => {
  const folder = temporaryFolder('replay-feed');
  let server: TestServer;
  const chain: string[] = [];
  const slices: Buffer[] = [];

  const call = async <T>(url: string, method: string, path: string, body?: unknown): Promise<T> => {
    const init = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(`${url}/v1/feeds/main${path}`, { method, ...init });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as T;
  };
  const slice = async (url: string, n: number): Promise<Buffer> => {
    const answer = await fetch(`${url}/v1/feeds/main/batches/${n}?rank=0&world=1&maxTokens=200&wait=30`);
    assert.equal(answer.status, 200);
    return Buffer.from(await answer.arrayBuffer());
  };
  const lease = (url: string, step: number): Promise<Leased> =>
    call(url, 'POST', '/leases', { holder: 't', step, world: 1, maxTokens: 200, wait: 30 });
  const commit = (url: string, { n, batchId, token }: Leased): Promise<unknown> =>
    call(url, 'POST', '/commits', { n, batchId, token, step: n });

  before(async () => {
    server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed' });
    await server.ready();
    const events = world({ seed: 4, groups: 16, size: 4, partitions: 4, trouble: 0.2 }).flat();
    const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body: Buffer.concat(events.map((event) => encodeEvent(event))) }); // prettier-ignore
    assert.equal(posted.status, 200);
    const made = await fetch(`${server.url}/v1/feeds`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ feed: 'main', spec: { maxRowTokens: 200, batch: { by: 'rollouts', size: 8 }, runs: ['run-1'] } }) }); // prettier-ignore
    assert.equal(made.status, 201);
    for (const step of [1, 2, 3]) {
      const leased = await lease(server.url, step);
      slices[step] = await slice(server.url, step);
      await commit(server.url, leased);
      chain[step] = leased.batchId;
    }
  });
  after(async () => {
    await server.kill();
    folder.remove();
  });

  test('as files: the same ids and, from one step to the other, the same bytes', async () => {
    const out = join(folder.path, 'again');
    const ran = await tapedeck(server.url, 'replay', 'feed', 'main', '--from', '2', '--max-tokens', '200', '--out', out);
    assert.equal(ran.code, 0, ran.err);
    assert.deepEqual(readdirSync(out).toSorted(), ['step_2', 'step_3']);
    for (const step of [2, 3]) {
      assert.ok(slices[step]!.equals(readFileSync(join(out, `step_${step}`, 'rank_0.arrow'))), `the bytes of step ${step}`);
      const manifest = JSON.parse(readFileSync(join(out, `step_${step}`, 'manifest.json'), 'utf8')) as { batchId: string };
      assert.equal(manifest.batchId, chain[step]);
    }
    assert.match(ran.out, /2 steps of feed main: every id is what its batch holds/);
  });

  test('to a new trainer: resume, lease, read, commit, to the end; the feed itself hears of nothing', async () => {
    const port = await findFreePort();
    const before = await call<Record<string, unknown>>(server.url, 'GET', '/status');
    const cli = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../../cli/main.ts'), 'replay', 'feed', 'main', '--from', '2', '--to', '3', '--serve', String(port)], { env: { ...process.env, TAPEDECK_URL: server.url }, stdio: ['ignore', 'pipe', 'pipe'] }); // prettier-ignore
    let output = '';
    for (const stream of [cli.stdout, cli.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()));
    const over = new Promise<number | null>((resolve) => void cli.once('exit', resolve));
    const url = `http://127.0.0.1:${port}`;
    for (let i = 0; i < 600 && !output.includes(url); i++) await new Promise((wake) => setTimeout(wake, 100));
    const resumed = await call<{ next: number; batchId: string }>(url, 'POST', '/resume', { holder: 't', checkpoint: null });
    assert.deepEqual([resumed.next, resumed.batchId], [2, chain[1]]);
    for (const step of [2, 3]) {
      const leased = await lease(url, step);
      assert.equal(leased.batchId, chain[step]);
      assert.ok(slices[step]!.equals(await slice(url, step)));
      await commit(url, leased);
    }
    assert.equal((await lease(url, 4)).end, true);
    assert.equal(await over, 0, output);
    assert.match(output, new RegExp(`step 3 of 3 committed: ${chain[3] as string}`));
    const after = await call<Record<string, unknown>>(server.url, 'GET', '/status');
    assert.deepEqual([after['committed'], after['lease'], after['timeline']], [before['committed'], before['lease'], before['timeline']]);
  });

  test('under another algorithm: a new feed with the same groups in the same batches', async () => {
    const ran = await tapedeck(server.url, 'replay', 'feed', 'main', '--as', 'again', '--algorithm', 'rloo');
    assert.equal(ran.code, 0, ran.err);
    assert.match(ran.out, /feed again is there .*the groups of main in the same batches/);
    type Manifest = { algorithm: string; groups: string[] };
    const manifest = async (feed: string): Promise<Manifest> =>
      (await (await fetch(`${server.url}/v1/feeds/${feed}/batches/1/manifest?wait=30`)).json()) as Manifest;
    const [main, again] = [await manifest('main'), await manifest('again')];
    assert.equal(again.algorithm, 'rloo');
    assert.deepEqual(again.groups, main.groups);
  });

  test('steps that are not there, and wrong use', async () => {
    for (const [args, code, message] of [
      [['main', '--to', '9'], 1, /has committed 3 steps/],
      [['nobody'], 1, /not_found/],
      [['main', '--from', '3', '--to', '2'], 2, /no range/],
      [['main', '--out', 'x', '--as', 'y'], 2, /choose one/],
      [['main', '--as', 'z', '--rewards', 'none'], 2, /cut or latest/],
      [['main', '--as', 'main'], 1, /feed_exists|invalid_value/],
    ] as const) {
      const ran = await tapedeck(server.url, 'replay', 'feed', ...args);
      assert.equal(ran.code, code, `${args.join(' ')}: ${ran.out}${ran.err}`);
      assert.match(ran.err, message);
    }
  });
});
