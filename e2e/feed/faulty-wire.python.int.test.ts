/** A Python trainer whose connection breaks inside slices, and one that gets a byte which is not the feed's: the first trains what it would have trained, the second nothing. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { event, T0, world } from '../../trainer-feed/feed/feed-world.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { findTorchPython } from '../torch-python.ts';

const found = await findTorchPython({ packages: ['pyarrow==21.0.0'] });
const skip = 'missing' in found ? found.missing : false;
const CLIENT = join(import.meta.dirname, '../../trainer-feed/python');
const folder = temporaryFolder('faulty-wire');
const SPEC = { runs: ['run-1'], batch: { by: 'groups', size: 2 }, maxRowTokens: 64, staleness: { maxOffPolicySteps: null } };
let server: TestServer;
let proxy: Server;
/** What happens to the body of the next slice: it goes through, ends in the middle, or has a bit turned over. */
let nextFault: () => 'none' | 'cut' | 'flip' = () => 'none';
/** Files that are named on the way are copies in which a bit is turned over; how many were named so. */
let damaged: number | null = null;
/** What manifests become on their way. */
let changed: (manifest: Manifest) => unknown = (manifest) => manifest;
type Manifest = { n: number; previousId: string | null; excluded: unknown[]; rows: { contentHash: string }[] };

async function passOn(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await buffer(request);
  const { host: _host, connection: _connection, ...headers } = request.headers;
  const init = { method: request.method as string, headers: headers as Record<string, string>, ...(body.length > 0 ? { body } : {}) };
  const answer = await fetch(`${server.url}${request.url}`, init);
  let bytes = Buffer.from(await answer.arrayBuffer());
  if (request.url?.includes('/manifest') === true && answer.status === 200) bytes = Buffer.from(JSON.stringify(changed(JSON.parse(bytes.toString()) as Manifest))); // prettier-ignore
  const kept = Object.fromEntries([...answer.headers].filter(([name]) => !['connection', 'keep-alive', 'transfer-encoding', 'x-feed-file'].includes(name))); // prettier-ignore
  const file = answer.headers.get('x-feed-file');
  if (request.method === 'HEAD' && file !== null && damaged !== null) {
    const copy = join(folder.path, `damaged-${damaged++}.arrow`);
    const content = readFileSync(decodeURI(file));
    content[content.length >> 1] = (content[content.length >> 1] as number) ^ 1;
    writeFileSync(copy, content);
    response.writeHead(200, { ...kept, 'x-feed-file': encodeURI(copy) }).end();
    return;
  }
  const isSlice = answer.headers.get('content-type')?.startsWith('application/vnd.apache.arrow') === true && request.method === 'GET';
  const fault = isSlice ? nextFault() : 'none';
  response.writeHead(answer.status, { ...kept, 'content-length': String(bytes.length) });
  if (fault === 'cut') {
    response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
    return;
  }
  if (fault === 'flip') bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
  response.end(bytes);
}

type Trained = {
  readonly steps: readonly { readonly n: number; readonly rows: string[]; readonly loss: number; readonly digest: string }[];
  readonly code: number | null;
  readonly said: string;
};

/** A trainer of one rank over the proxy, on a new feed over the same log. */
async function train(feed: string, more: object = {}): Promise<Trained> {
  const made = await fetch(`${server.url}/v1/feeds`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ feed, spec: SPEC }) }); // prettier-ignore
  assert.equal(made.status, 201, await made.text());
  return run({ feed, ...more });
}

async function run(options: object): Promise<Trained> {
  if ('missing' in found) throw new Error(found.missing);
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const asked = { url, rank: 0, world: 1, max_tokens: 64, steps: null, checkpoint: null, local_files: false, ...options };
  const child = spawn(found.python, [join(CLIENT, 'tests/train.py'), JSON.stringify(asked)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 180_000,
    killSignal: 'SIGKILL',
    env: { ...process.env, PYTHONPATH: [join(CLIENT, 'src'), found.path].join(':'), PYTHONDONTWRITEBYTECODE: '1' },
  });
  const [output, said, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  const lines = output.split('\n').filter(Boolean).map((line) => JSON.parse(line) as Trained['steps'][number] & { end?: true }); // prettier-ignore
  const steps = lines.filter(({ end }) => end !== true).map(({ n, rows, loss, digest }) => ({ n, rows, loss, digest }));
  return { steps, code, said };
}

before(async () => {
  if (skip !== false) return;
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' });
  await server.ready();
  proxy = createServer((request, response) => void passOn(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
  const events = [
    event('run.started', { run: 'run-1' }, T0 - 1, { kind: 'train' }),
    ...world({ seed: 5, groups: 10, size: 4, partitions: 4 }).flat(),
    event('run.ended', { run: 'run-1' }, T0 + 10_000_000, { status: 'completed' }),
  ];
  const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body: Buffer.concat(events.map((each) => encodeEvent(each))) }); // prettier-ignore
  assert.equal(posted.status, 200, await posted.text());
});

after(async () => {
  proxy?.close();
  proxy?.closeAllConnections();
  await server?.stop();
  folder.remove();
});

test('connections that break inside slices change nothing of what is trained', { skip, timeout: 400_000 }, async () => {
  const whole = await train('whole');
  assert.deepEqual([whole.code, whole.steps.length > 3], [0, true], whole.said);
  // twice in each slice: more attempts than there are buffers
  let slices = 0;
  nextFault = () => (slices++ % 3 === 2 ? 'none' : 'cut');
  const cut = await train('cut');
  assert.equal(cut.code, 0, cut.said);
  assert.deepEqual(cut.steps, whole.steps);
  assert.ok(slices >= 3 * whole.steps.length);
});

test('numpy is enough: without torch the same is trained', { skip, timeout: 400_000 }, async () => {
  nextFault = () => 'none';
  const both = [await train('with torch'), await train('without torch', { without_torch: true })] as const;
  assert.deepEqual([both[1].code, both[1].steps.length > 3], [0, true], both[1].said);
  assert.deepEqual(both[1].steps, both[0].steps);
});

test(
  'a rank that only reads is told why it cannot, by the code of the server and with its remedy',
  { skip, timeout: 400_000 },
  async () => {
    nextFault = () => 'none';
    for (const localFiles of [true, false]) {
      const refused = await run({ feed: 'nobody', rank: 1, world: 2, local_files: localFiles });
      assert.match(refused.said, /FeedError: not_found: there is no feed nobody in project default: create it with POST/);
      assert.equal(refused.code, 1);
    }
  },
);

test('a byte that is not the feed’s is refused by name, and the batch is not trained', { skip, timeout: 400_000 }, async () => {
  let slices = 0;
  nextFault = () => (++slices === 2 ? 'flip' : 'none');
  const flipped = await train('flipped');
  assert.match(
    flipped.said,
    /CorruptSlice: digest_mismatch: the slice has sha256 [0-9a-f]{64}, announced was [0-9a-f]{64}: fetch it again/,
  );
  assert.deepEqual([flipped.code, flipped.steps.map(({ n }) => n)], [1, [1]]);
});

test('a file that was damaged on disk is not trained from: what the server has of it is', { skip, timeout: 400_000 }, async () => {
  nextFault = () => 'none';
  const whole = await train('from the wire');
  damaged = 0;
  const other = await train('from damaged files', { local_files: true });
  assert.deepEqual([other.code, other.steps], [0, whole.steps], other.said);
  assert.ok(damaged >= whole.steps.length);
  damaged = null;
});

test('a chain that does not hold is refused by name where the trainer follows it, and only there', { skip, timeout: 400_000 }, async () => {
  nextFault = () => 'none';
  const honest = await train('honest', { verify_chain: true });
  assert.deepEqual([honest.code, honest.steps.length > 3], [0, true], honest.said);
  const forgeries: Record<string, (manifest: Manifest) => unknown> = {
    row: (manifest) => (manifest.n === 2 ? { ...manifest, rows: manifest.rows.map((row) => ({ ...row, contentHash: 'ab'.repeat(32) })) } : manifest),
    'before it': (manifest) => (manifest.n === 2 ? { ...manifest, previousId: 'ab'.repeat(32) } : manifest),
  };
  for (const [what, forged] of Object.entries(forgeries)) {
    changed = forged;
    const refused = await train(`forged ${what}`, { verify_chain: true });
    assert.match(refused.said, /CorruptSlice: chain_mismatch: batch 2 claims the id [0-9a-f]{64}, its content has [0-9a-f]{64}/);
    assert.deepEqual([refused.code, refused.steps.map(({ n }) => n)], [1, [1]]);
  }
  // whoever does not ask for manifests does not see them
  assert.equal((await train('not looked at')).code, 0);
  changed = (manifest) => manifest;
}); // prettier-ignore
