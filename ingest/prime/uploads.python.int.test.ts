/**
 * The real clients, unmodified, pointed here by environment variables: vf-eval of a small environment with its default push (over a fake engine, both in Python), and the
 * SDKs prime-traces and prime-evals. What was uploaded comes back equal, field by field, to the file that vf-eval wrote.
 */
import assert from 'node:assert/strict';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { caughtUp, audit, sql } from '../../e2e/proof.ts';
import { findPython } from '../../e2e/python.ts';
import { startServer, temporaryFolder, type TestServer } from '../../e2e/server.ts';
import { sameJson } from '../importers/json-value.ts';
import { parsed } from '../importers/sample-records.ts';

const run = promisify(execFile);
const PEERS = join(import.meta.dirname, '../../../shared/peers');
const found = existsSync(PEERS)
  ? await findPython({ packages: ['verifiers==0.4.0', 'renderers==0.1.12', 'prime-evals==0.2.4', 'uv==0.13.8'], imports: ['prime_traces', 'prime_evals'] })
  : { missing: 'the clients and the environment (../shared/peers) are not here' }; // prettier-ignore
const skip = 'missing' in found ? found.missing : false;
const python = 'python' in found ? found.python : '';
const bin = dirname(python);

const folder = temporaryFolder('prime-python');
let server: TestServer;
let engine: ChildProcess | null = null;
before(async () => {
  if (skip === false) server = await startServer({ TAPEDECK_DATA: join(folder.path, 'data') }, { listenMs: 60_000 });
});
after(async () => {
  engine?.kill();
  if (skip === false) await server.kill();
  folder.remove();
});

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** The fake engine of the collected peers, and the tokenizer that the client renders with. */
async function startEngine(): Promise<{ url: string; tokenizer: string }> {
  const tokenizer = join(folder.path, 'tokenizer');
  await run(python, [join(PEERS, 'make_tokenizer.py'), tokenizer], { timeout: 120_000 });
  const port = await freePort();
  engine = spawn(python, [join(PEERS, 'fake_engine.py'), String(port), tokenizer], { stdio: 'ignore' });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; i < 600; i++) {
    const isUp = await fetch(`${url}/v1/models`).then((answer) => answer.ok, () => false); // prettier-ignore
    if (isUp) return { url, tokenizer };
    await sleep(100);
  }
  throw new Error('the fake engine did not start');
}

test('vf-eval pushes into the server; its own file is what comes back', { skip }, async () => {
  const { url, tokenizer } = await startEngine();
  const out = join(folder.path, 'out');
  mkdirSync(join(folder.path, 'home'));
  const args = [
    join(bin, 'vf-eval'), 'toy-sum', '-m', 'toy', '-n', '2', '-r', '2', '-c', '2', '--env.agent.harness.id', 'null', '--env.agent.runtime.type', 'subprocess',
    '--client.type', 'train', '--client.renderer.name', 'qwen3', '--client.renderer-model-name', tokenizer, '--client.base-url', `${url}/v1`, '--client.api-key-var', 'EMPTY',
    '--no-rich', '-o', out,
  ]; // prettier-ignore
  const env = {
    PATH: `${bin}:${process.env['PATH']}`, HOME: join(folder.path, 'home'), PYTHONPATH: join(PEERS, 'toy_sum'), EMPTY: 'x', HF_HUB_OFFLINE: '1',
    PRIME_API_KEY: 'secret-of-a-person', PRIME_TRACES_URL: server.url, PRIME_API_BASE_URL: server.url,
    ...(process.env['PIP_CERT'] !== undefined && { SSL_CERT_FILE: process.env['PIP_CERT'] }),
  }; // prettier-ignore
  await run(python, args, { env, cwd: folder.path, timeout: 400_000, maxBuffer: 64 << 20 });
  const [file] = globSync(`${out}/*/traces.jsonl`) as [string];
  const written = readFileSync(file, 'utf8').trim().split('\n').map((line) => parsed(line) as { id: string; run: { id: string; name: string } }); // prettier-ignore
  assert.equal(written.length, 4);

  await server.ready(180_000);
  await caughtUp(server.url, 180_000);
  const first = written[0] as (typeof written)[number];
  const exported = join(folder.path, 'exported.jsonl');
  await run(process.execPath, [
    join(import.meta.dirname, '../../cli/main.ts'),
    'export',
    'verifiers',
    '--run',
    first.run.id,
    '--url',
    server.url,
    '-o',
    exported,
  ]);
  const back = new Map(readFileSync(exported, 'utf8').trim().split('\n').map((line) => parsed(line) as { id: string }).map((episode) => [episode.id, episode])); // prettier-ignore
  assert.equal(back.size, written.length);
  for (const episode of written) assert.ok(sameJson(back.get(episode.id) as never, episode as never), episode.id);

  const runs = await sql<Record<string, unknown>>(server.url, 'SELECT run, kind, name, model, status, config, metrics FROM runs');
  assert.equal(runs.length, 1);
  const metrics = JSON.parse(runs[0]?.['metrics'] as string) as { avg_reward: number; prime_runs: unknown };
  assert.deepEqual([runs[0]?.['run'], runs[0]?.['kind'], runs[0]?.['name'], runs[0]?.['model'], runs[0]?.['status']], [first.run.id, 'eval', first.run.name, 'toy', 'completed']); // prettier-ignore
  assert.deepEqual(metrics.prime_runs, { traces_episodes_written: 4 });
  assert.deepEqual(JSON.parse(runs[0]?.['config'] as string), { model: 'toy', num_examples: 2, rollouts_per_example: 2 });
  const [tokens] = await sql<{ ids: string; sampled: string }>(
    server.url,
    'SELECT sum(length(token_ids)) AS ids, sum(length(logprobs)) AS sampled FROM nodes',
  );
  assert.ok(Number(tokens?.ids) > 150 && Number(tokens?.sampled) > 15);
  assert.equal((await audit(server.url)).ok, true);
  assert.ok(!server.output().includes('secret-of-a-person'));
});

test('prime-traces and prime-evals upload, list and push samples', { skip }, async () => {
  const lines = join(PEERS, 'samples', 'verifiers-0.4.0-eval-client-tools.traces.jsonl');
  const { stdout } = await run(python, [join(PEERS, 'prime_upload_clients.py'), lines, '--base', server.url], {
    timeout: 120_000,
    maxBuffer: 64 << 20,
  });
  const said = JSON.parse(stdout) as Record<string, unknown> & {
    receipts: { upload_id: string; status: string }[];
    evaluation: { evaluation_id: string };
  };
  assert.equal(said.receipts[0]?.status, 'committed');
  assert.deepEqual(said['receipts_again'], said.receipts);
  assert.deepEqual(said['list'], { items: [], next_cursor: null });
  assert.deepEqual(said['push'], { samples_pushed: 10, samples_skipped: 0 });
  // the script finalizes "ev1", which nobody created here
  assert.match(said['evals_error'] as string, /HTTP 404.*there is no evaluation/);
  await caughtUp(server.url, 180_000);
  const script = [
    'import json, sys, prime_traces',
    'with prime_traces.TracesClient() as c:',
    '  items = list(c.iter(upload_id=sys.argv[1], limit=4)) if hasattr(c, "iter") else c.list(upload_id=sys.argv[1], limit=100).items',
    '  one = c.get(items[0].trace_id)',
    '  print(json.dumps([len(items), len({i.trace_id for i in items}), one.model_dump(mode="json") == items[0].model_dump(mode="json"), one.context]))',
  ].join('\n');
  const env = { PATH: process.env['PATH'], HOME: folder.path, PRIME_API_KEY: 'x', PRIME_TRACES_URL: server.url };
  const listed = await run(python, ['-c', script, said.receipts[0]?.upload_id as string], { env, timeout: 120_000 });
  assert.deepEqual(JSON.parse(listed.stdout), [10, 10, true, { suite: 'toy' }]);
  const [samples] = await sql<{ n: string }>(
    server.url,
    `SELECT count() AS n FROM rollouts WHERE run = '${said.evaluation.evaluation_id}'`,
  );
  assert.equal(Number(samples?.n), 10);
});
