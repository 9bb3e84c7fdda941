/** A Python trainer fed by `tapedeck replay feed --serve`: it cannot tell the replay from the feed, gets the same batches bit for bit, and the feed never hears of it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { event, T0, world } from '../../trainer-feed/feed/feed-world.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { findTorchPython } from '../torch-python.ts';

const found = await findTorchPython({ packages: ['pyarrow==21.0.0'] });
const skip = 'missing' in found ? found.missing : false;
const CLIENT = join(import.meta.dirname, '../../trainer-feed/python');
const CLI = join(import.meta.dirname, '../../cli/main.ts');
const folder = temporaryFolder('python-replay');
let server: TestServer;

type Step = {
  readonly n: number;
  readonly batch_id: string;
  readonly rows: readonly string[];
  readonly digest: string;
  readonly end?: true;
};

async function ranks(url: string, count: number, options: object): Promise<Step[][]> {
  return Promise.all(
    Array.from({ length: count }, async (_, rank) => {
      if ('missing' in found) throw new Error(found.missing);
      const asked = { url, feed: 'main', rank, world: count, max_tokens: 64, steps: null, checkpoint: null, ...options };
      const child = spawn(found.python, [join(CLIENT, 'tests/train.py'), JSON.stringify(asked)], {
        stdio: ['ignore', 'pipe', 'inherit'],
        timeout: 180_000,
        killSignal: 'SIGKILL',
        env: { ...process.env, PYTHONPATH: [join(CLIENT, 'src'), found.path].join(':'), PYTHONDONTWRITEBYTECODE: '1' },
      });
      const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[number | null]>]);
      assert.equal(code, 0);
      return output.split('\n').filter(Boolean).map((line) => JSON.parse(line) as Step); // prettier-ignore
    }),
  );
}

/** The command that serves the replay, once it listens. */
async function replay(...options: readonly string[]): Promise<{ url: string; over: Promise<number | null> }> {
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', CLI, 'replay', 'feed', 'main', '--serve', '0', ...options],
    {
      env: { ...process.env, TAPEDECK_URL: server.url },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: 300_000,
      killSignal: 'SIGKILL',
    },
  );
  const over = once(child, 'exit').then(([code]) => code as number | null);
  let said = '';
  const listening = new Promise<string>((resolve) => {
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (url !== undefined) resolve(url);
    });
  });
  return { url: await Promise.race([listening, over.then((code) => assert.fail(`the replay ended with ${code}: ${said}`))]), over };
}

const own = (steps: readonly Step[]) =>
  steps.filter(({ end }) => end !== true).map(({ n, batch_id: id, rows, digest }) => ({ n, id, rows, digest }));
const status = async (): Promise<unknown> => {
  const { committed, cut, lease, timeline } = (await (await fetch(`${server.url}/v1/feeds/main/status`)).json()) as Record<string, unknown>;
  return { committed, cut, lease, timeline };
};

before(async () => {
  if (skip !== false) return;
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' });
  await server.ready();
  const events = [
    event('run.started', { run: 'run-1' }, T0 - 1, { kind: 'train' }),
    ...world({ seed: 5, groups: 10, size: 4, partitions: 4 }).flat(),
    event('run.ended', { run: 'run-1' }, T0 + 10_000_000, { status: 'completed' }),
  ];
  const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body: Buffer.concat(events.map((each) => encodeEvent(each))) }); // prettier-ignore
  assert.equal(posted.status, 200, await posted.text());
  const spec = { runs: ['run-1'], batch: { by: 'groups', size: 2 }, maxRowTokens: 64, staleness: { maxOffPolicySteps: null } };
  const made = await fetch(`${server.url}/v1/feeds`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ feed: 'main', spec }) }); // prettier-ignore
  assert.equal(made.status, 201, await made.text());
});

after(async () => {
  await server?.stop();
  folder.remove();
});

test('over TCP and by files, on two ranks: the same ids and bytes, to the end', { skip, timeout: 500_000 }, async () => {
  const original = (await ranks(server.url, 2, {})).map(own);
  const steps = original[0]?.length ?? 0;
  assert.ok(steps > 3, `${steps} steps`);
  const before = await status();
  for (const options of [{ local_files: false, verify_chain: true }, { local_files: true }]) {
    const { url, over } = await replay('--from', '1', '--to', String(steps));
    const again = await ranks(url, 2, options);
    assert.deepEqual(again.map(own), original);
    assert.deepEqual(again.map((each) => each.at(-1)?.end), [true, true]); // prettier-ignore
    assert.equal(await over, 0);
  }
  assert.deepEqual(await status(), before);
});

test('from the middle: the first batch names the one before the range', { skip, timeout: 300_000 }, async () => {
  const { url, over } = await replay('--from', '2', '--to', '3');
  const [part] = await ranks(url, 1, { verify_chain: true });
  assert.deepEqual(part?.map(({ n }) => n), [2, 3, undefined]); // prettier-ignore
  for (const { n, batch_id: id } of part?.slice(0, 2) ?? []) {
    const manifest = (await (await fetch(`${server.url}/v1/feeds/main/batches/${n}/manifest`)).json()) as { batchId: string };
    assert.equal(id, manifest.batchId);
  }
  assert.equal(await over, 0);
});
