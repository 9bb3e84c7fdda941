/**
 * A Python trainer over a real server: ranks as processes, a trainer that dies before its commit, a rollback to an older checkpoint at another world size. Every row is in exactly one
 * committed batch, and a batch served again is the same batch.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import { event, T0, world } from '../../trainer-feed/feed/feed-world.ts';
import { caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { findTorchPython } from '../torch-python.ts';

const found = await findTorchPython({ packages: ['pyarrow==21.0.0'] });
const skip = 'missing' in found ? found.missing : false;
const CLIENT = join(import.meta.dirname, '../../trainer-feed/python');
const folder = temporaryFolder('python-trainer');
let server: TestServer;

type Step = {
  readonly n: number;
  readonly batch_id: string;
  readonly rows: readonly string[];
  readonly loss: number;
  readonly micro_batches: number;
  readonly checkpoint: { readonly n: number; readonly batch_id: string | null };
  readonly end?: true;
  readonly gradient?: readonly number[];
};

async function send(events: readonly TapedeckEvent[]): Promise<void> {
  for (let at = 0; at < events.length; at += 200) {
    const body = Buffer.concat(events.slice(at, at + 200).map((each) => encodeEvent(each)));
    const answer = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor' }, body });
    const said = (await answer.json()) as { rejected: unknown[] };
    assert.deepEqual([answer.status, said.rejected], [200, []]);
  }
}

/** One rank; resolves with what it printed and how it ended. */
async function rank(options: object): Promise<{ steps: Step[]; code: number | null }> {
  if ('missing' in found) throw new Error(found.missing);
  const child = spawn(found.python, [join(CLIENT, 'tests/train.py'), JSON.stringify({ url: server.url, feed: 'policy', max_tokens: 64, steps: null, checkpoint: null, ...options })], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 180_000,
    killSignal: 'SIGKILL',
    env: { ...process.env, PYTHONPATH: [join(CLIENT, 'src'), found.path].join(':'), PYTHONDONTWRITEBYTECODE: '1' },
  }); // prettier-ignore
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[number | null]>]);
  return { steps: output.split('\n').filter(Boolean).map((line) => JSON.parse(line) as Step), code }; // prettier-ignore
}

async function ranks(count: number, options: object): Promise<{ steps: Step[]; code: number | null }[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => rank({ ...options, rank: i, world: count })));
}

const SPEC = { runs: ['run-1'], batch: { by: 'groups', size: 2 }, maxRowTokens: 64, staleness: { maxOffPolicySteps: null } };

before(async () => {
  if (skip !== false) return;
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_LOG_LEVEL: 'warn' });
  await server.ready();
  const answer = await fetch(`${server.url}/v1/feeds`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ feed: 'policy', spec: SPEC }),
  }); // prettier-ignore
  assert.equal(answer.status, 201, await answer.text());
  await send([event('run.started', { run: 'run-1' }, T0 - 1, { kind: 'train' })]);
  await send(world({ seed: 5, groups: 10, size: 4, partitions: 4 }).flat());
  await send([event('run.ended', { run: 'run-1' }, T0 + 10_000_000, { status: 'completed' })]);
});

after(async () => {
  await server?.stop();
  folder.remove();
});

test(
  'two ranks train, one dies before its commit, four go on from an older checkpoint: every row once',
  { skip, timeout: 300_000 },
  async () => {
    const first = await ranks(2, { steps: 2 });
    assert.deepEqual(first.map(({ code }) => code), [0, 0]); // prettier-ignore
    const [zero, one] = first.map(({ steps }) => steps) as [Step[], Step[]];
    assert.deepEqual(zero.map(({ n, batch_id: id }) => [n, id]), one.map(({ n, batch_id: id }) => [n, id])); // prettier-ignore
    for (const [k, step] of zero.entries()) assert.equal(step.micro_batches, one[k]?.micro_batches);

    const dead = await rank({ rank: 0, world: 1, checkpoint: zero[1]?.checkpoint, die_before_commit: 3 });
    assert.equal(dead.code, 9);

    // the newest checkpoint on disk is one of step 1: batch 2 is trained again, as it was, by another number of ranks
    const last = await ranks(4, { checkpoint: zero[0]?.checkpoint });
    assert.deepEqual(last.map(({ code }) => code), [0, 0, 0, 0]); // prettier-ignore
    const [lead] = last.map(({ steps }) => steps) as [Step[]];
    assert.equal(lead.at(-1)?.end, true);
    const batches = lead.filter(({ end }) => end !== true);
    assert.deepEqual(batches.map(({ n }) => n), batches.map((_, i) => i + 2)); // prettier-ignore
    assert.equal(batches[0]?.batch_id, zero[1]?.batch_id);

    const trained = [...zero.slice(0, 1), ...one.slice(0, 1), ...last.flatMap(({ steps }) => steps)].flatMap(({ rows }) => rows ?? []);
    assert.equal(new Set(trained).size, trained.length, 'a row was trained twice');
    const again = [...zero.slice(1), ...one.slice(1)].flatMap(({ rows }) => rows).toSorted();
    const replayed = last.flatMap(({ steps }) => steps.filter(({ n }) => n === 2).flatMap(({ rows }) => rows)).toSorted();
    assert.deepEqual(replayed, again);

    const losses = (all: readonly { steps: Step[] }[], n: number): number =>
      all.reduce((sum, { steps }) => sum + (steps.find((step) => step.n === n)?.loss ?? 0), 0);
    assert.ok(Math.abs(losses(first, 2) - losses(last, 2)) < 1e-9, 'the loss depends on the number of ranks');
  },
);

test('one batch at 1, 2, 4 and 8 ranks: equally many micro-batches on each, and the same loss and gradient', { skip, timeout: 400_000 }, async () => {
  await create('worlds');
  let alone: { loss: number; gradient: readonly number[]; batchId: string } | null = null;
  for (const world of [1, 2, 4, 8]) {
    const all = await ranks(world, { feed: 'worlds', peek: true });
    const steps = all.map(({ steps: [step], code }) => {
      assert.equal(code, 0);
      return step as Step;
    });
    assert.equal(new Set(steps.map(({ micro_batches: count }) => count)).size, 1, `${world} ranks`);
    const loss = steps.reduce((sum, step) => sum + step.loss, 0);
    const gradient = (steps[0]?.gradient ?? []).map((_, i) => steps.reduce((sum, step) => sum + (step.gradient?.[i] ?? NaN), 0));
    const batchId = steps[0]?.batch_id as string;
    alone ??= { loss, gradient, batchId };
    assert.equal(batchId, alone.batchId);
    assert.ok(Math.abs(loss - alone.loss) < 1e-6, `loss ${loss} of ${world} ranks, ${alone.loss} of one`);
    for (const [i, value] of gradient.entries()) assert.ok(Math.abs(value - (alone.gradient[i] as number)) < 1e-6, `gradient ${i} of ${world} ranks`);
  }
  assert.ok((alone?.gradient ?? []).some((value) => Math.abs(value) > 1e-3), 'there was nothing to learn');
}); // prettier-ignore

test('killed between its checkpoint and its commit: the step is not trained again, and its metrics are recorded', { skip, timeout: 200_000 }, async () => {
  await create('torn');
  const dead = await rank({ feed: 'torn', rank: 0, world: 1, die_before_commit: 2, saves: true });
  assert.deepEqual([dead.code, dead.steps.map(({ n }) => n)], [9, [1, 2]]);
  const next = await rank({ feed: 'torn', rank: 0, world: 1, steps: 1, checkpoint: dead.steps[1]?.checkpoint });
  assert.deepEqual([next.code, next.steps.map(({ n }) => n)], [0, [3]]);
  await caughtUp(server.url);
  const rows = await sql<{ step: string; metrics: string }>(server.url, "SELECT step, metrics FROM trainer_steps WHERE feed = 'torn' ORDER BY step");
  const losses = [...dead.steps, ...next.steps].map(({ loss }) => ({ loss }));
  assert.deepEqual(rows.map(({ metrics }) => JSON.parse(metrics) as unknown), losses); // prettier-ignore
}); // prettier-ignore

test('eight ranks, then four, then six from a checkpoint: every row once', { skip, timeout: 400_000 }, async () => {
  await create('elastic');
  const eight = await ranks(8, { feed: 'elastic', steps: 1 });
  const four = await ranks(4, { feed: 'elastic', steps: 2, checkpoint: eight[0]?.steps[0]?.checkpoint });
  const six = await ranks(6, { feed: 'elastic', checkpoint: four[0]?.steps.at(-1)?.checkpoint });
  for (const all of [eight, four, six]) assert.deepEqual(all.map(({ code }) => code), all.map(() => 0)); // prettier-ignore
  const chain = [eight, four, six].flatMap((all) => (all[0]?.steps ?? []).filter(({ end }) => end !== true).map(({ n }) => n));
  assert.deepEqual(chain, chain.map((_, i) => i + 1)); // prettier-ignore
  const rows = [...eight, ...four, ...six].flatMap(({ steps }) => steps.flatMap(({ rows: own }) => own ?? []));
  assert.equal(new Set(rows).size, rows.length, 'a row was trained twice');
  const whole: string[] = [];
  for (const n of chain) {
    const answer = await fetch(`${server.url}/v1/feeds/elastic/batches/${n}/manifest`);
    whole.push(...((await answer.json()) as { rows: { rowId: string }[] }).rows.map(({ rowId }) => rowId));
  }
  assert.deepEqual(rows.toSorted(), whole.toSorted());
});

test('anybody verifies a feed from its manifests and slices, and ranks can follow the chain while they train', { skip, timeout: 400_000 }, async () => {
  await create('followed');
  const all = await ranks(2, { feed: 'followed', verify_chain: true });
  assert.deepEqual(all.map(({ code }) => code), [0, 0]); // prettier-ignore
  const steps = all[0]?.steps.filter(({ end }) => end !== true) ?? [];
  const resumed = await ranks(1, { feed: 'followed', verify_chain: true, checkpoint: steps[1]?.checkpoint });
  assert.deepEqual([resumed[0]?.code, resumed[0]?.steps[0]?.batch_id], [0, steps[2]?.batch_id]);
  for (const options of [[], ['--rows'], ['--to', '2', '--rows']]) {
    const { code, output } = await verify('followed', options);
    assert.equal(code, 0);
    assert.equal(output, `${options.includes('--to') ? 2 : steps.length} batches of feed followed: every id is what its batch holds, each names the one before it\n`);
  }
}); // prettier-ignore

test('ranks that say nothing of costs are not given what an earlier trainer’s costs would pack', { skip, timeout: 400_000 }, async () => {
  await create('costs');
  const body = { holder: 'trainer', step: 1, world: 2, maxTokens: 64, padToMultiple: 4, cost: { linear: 1e-9, quadratic: 1000 }, wait: 60 };
  const lease = await fetch(`${server.url}/v1/feeds/costs/leases`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  assert.equal(lease.status, 200, await lease.text());
  const all = await ranks(2, { feed: 'costs', steps: 1 });
  assert.deepEqual(all.map(({ code }) => code), [0, 0]); // prettier-ignore
  const manifest = (await (await fetch(`${server.url}/v1/feeds/costs/batches/1/manifest`)).json()) as { rows: { rowId: string }[] };
  assert.deepEqual(all.flatMap(({ steps }) => steps[0]?.rows ?? []).toSorted(), manifest.rows.map(({ rowId }) => rowId).toSorted()); // prettier-ignore
}); // prettier-ignore

async function verify(feed: string, options: readonly string[]): Promise<{ output: string; code: number | null }> {
  if ('missing' in found) throw new Error(found.missing);
  const child = spawn(found.python, ['-m', 'tapedeck_feed.verify', server.url, feed, ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 180_000,
    killSignal: 'SIGKILL',
    env: { ...process.env, PYTHONPATH: [join(CLIENT, 'src'), found.path].join(':'), PYTHONDONTWRITEBYTECODE: '1' },
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[number | null]>]);
  return { output, code };
}

async function create(feed: string): Promise<void> {
  const answer = await fetch(`${server.url}/v1/feeds`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ feed, spec: SPEC }) });
  assert.equal(answer.status, 201, await answer.text());
} // prettier-ignore
