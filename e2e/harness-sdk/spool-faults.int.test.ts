/** A disk that is full, files that are damaged or gone: what can be delivered is, what cannot is said by number, and nothing else suffers. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemRandom } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import type { Drained } from '../../harness-sdk/delivery/reports.ts';
import { drainAll } from '../../harness-sdk/delivery/leftovers.ts';
import { httpPost } from '../../harness-sdk/delivery/post.ts';
import { appendRejected } from '../../harness-sdk/delivery/rejected-file.ts';
import { aliveFile, holdAlive } from '../../harness-sdk/spool/alive.ts';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';
import { temporaryFolder } from '../server.ts';
import { assertReconciled, hurriedClock, openQueueUnderTest, type QueueUnderTest } from './queue-under-test.ts';

let edge: Edge;
const folder = temporaryFolder('sdk-faults');
before(async () => {
  edge = await openEdge();
});
after(async () => {
  await edge.close();
  folder.remove();
});

const away: typeof fetch = async () =>
  new Response(JSON.stringify({ error: { code: 'log_unavailable', message: 'away' } }), { status: 503 });

type StoredMetric = { readonly name: string; readonly seq: number; readonly producer: string };
async function storedOf(prefix: string): Promise<StoredMetric[]> {
  return (await edge.stored())
    .map(({ event }) => event as { data: { name?: string }; producer?: { id: string; seq: number } })
    .filter(({ data }) => data.name?.startsWith(prefix) === true)
    .map(({ data, producer }) => ({ name: data.name as string, seq: producer?.seq ?? -1, producer: producer?.id ?? '' }))
    .toSorted((a, b) => a.seq - b.seq);
}

/** A session that a dead process left: `count` metrics named `<prefix>0` …, in segments of a few records. */
async function leftover(spool: string, prefix: string, count: number, segmentBytes: number): Promise<string[]> {
  const queue = openQueueUnderTest({
    url: edge.url,
    seed: count,
    fetch: away,
    limits: { closeMs: 1 },
    spool: { folder: spool, segmentBytes, drain: false },
  });
  for (let i = 0; i < count; i++) {
    queue.record(`${prefix}${i}`, { rollout: prefix, fill: 200 });
    if (i % 4 === 3) await queue.delivery.persist(10_000);
  }
  await queue.delivery.persist(10_000);
  await queue.delivery.close();
  return readdirSync(join(spool, queue.session)).filter((name) => name.endsWith('.seg')).map((name) => join(spool, queue.session, name)); // prettier-ignore
}

async function drain(spool: string): Promise<{ drained: Drained[]; rejectedFile: string | undefined }> {
  const newId = (): string => uuidV7(hurriedClock, systemRandom);
  const me = newId();
  const alive = holdAlive(aliveFile(spool, me));
  await alive.ready;
  const drained = await drainAll(
    {
      folder: spool, session: me, newId, clock: hurriedClock, random: systemRandom, limits: { bytes: 1 << 20, events: 8 }, isOwner: () => true,
      post: httpPost({ url: edge.url, key: undefined, gzip: false, requestMs: 10_000, clock: hurriedClock, fetch }),
      reject: (of, list) => appendRejected(join(spool, `rejected-${of}.jsonl`), list, 1),
      onProblem: () => {}, onDrained: () => {}, onFailure: (error) => assert.fail(String(error)),
    },
    new AbortController().signal,
  ); // prettier-ignore
  await alive.close();
  const rejected = readdirSync(spool).find((name) => name.startsWith('rejected-'));
  return { drained, rejectedFile: rejected === undefined ? undefined : join(spool, rejected) };
}

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

describe('damage', () => {
  test('a torn end costs only the record it hit', async () => {
    const spool = join(folder.path, 'torn');
    const files = await leftover(spool, 'torn-', 20, 1 << 20);
    const last = files.at(-1) as string;
    truncateSync(last, readFileSync(last).length - 30);
    const { drained, rejectedFile } = await drain(spool);
    assert.deepEqual(drained.map(({ acked, lost, rejected, damagedBytes }) => [acked, lost, rejected, damagedBytes > 0]), [[19, 0, 0, true]]); // prettier-ignore
    assert.deepEqual((await storedOf('torn-')).map(({ seq }) => seq), numbers(0, 19)); // prettier-ignore
    assert.equal(rejectedFile, undefined);
    assert.deepEqual(readdirSync(spool), []);
  });

  test('a bad block in the middle costs its records; they are missing by number, listed, and the file is kept', async () => {
    const spool = join(folder.path, 'block');
    const files = await leftover(spool, 'block-', 20, 1 << 20);
    const bytes = readFileSync(files[0] as string);
    const size = Math.floor(bytes.length / 20);
    // from the seventh record into the eighth
    bytes.fill(0xff, size * 6 + 40, size * 7 + 60);
    writeFileSync(files[0] as string, bytes);
    const { drained, rejectedFile } = await drain(spool);
    assert.deepEqual(drained.map(({ acked, lost, rejected }) => [acked, lost, rejected]), [[18, 2, 2]]); // prettier-ignore
    const stored = await storedOf('block-');
    assert.deepEqual(stored.map(({ seq }) => seq), [...numbers(0, 6), ...numbers(8, 20)]); // prettier-ignore
    assert.equal(new Set(stored.map(({ producer }) => producer)).size, 1);
    const lines = readFileSync(rejectedFile as string, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as { seq: number; code: string; event: null }); // prettier-ignore
    assert.deepEqual(lines.map(({ seq, code, event }) => [seq, code, event]), [[6, 'log_corrupt', null], [7, 'log_corrupt', null]]); // prettier-ignore
    assert.equal(readdirSync(join(spool, 'damaged')).length, 1);
  });

  test('a segment that is gone, the first one and one in the middle', async () => {
    const spool = join(folder.path, 'gone');
    const files = await leftover(spool, 'gone-', 40, 1_500);
    assert.ok(files.length > 5, `${files.length} segments`);
    rmSync(files[0] as string);
    rmSync(files[3] as string);
    const { drained } = await drain(spool);
    const stored = await storedOf('gone-');
    assert.ok(stored.length > 20 && stored.length < 40);
    assert.deepEqual([drained[0]?.acked, drained[0]?.lost], [stored.length, 40 - stored.length]);
    assert.equal(stored.at(-1)?.seq, 39);
  });

  test('more numbers than fit into one request are lost: all are stepped over, under the same producer', async () => {
    const spool = join(folder.path, 'many');
    const queue = openQueueUnderTest({ url: edge.url, seed: 1, fetch: away, limits: { closeMs: 1 }, spool: { folder: spool, segmentBytes: 200_000, drain: false } }); // prettier-ignore
    for (let i = 0; i < 26_000; i++) {
      queue.record(`many-${i}`);
      if (i % 500 === 499) await queue.delivery.persist(10_000);
    }
    await queue.delivery.close();
    const files = readdirSync(join(spool, queue.session)).filter((name) => name.endsWith('.seg')).map((name) => join(spool, queue.session, name)); // prettier-ignore
    for (const file of files.slice(1, -1)) rmSync(file);
    const { drained } = await drain(spool);
    const stored = await storedOf('many-');
    assert.equal(stored.length, drained[0]?.acked);
    assert.ok((drained[0]?.lost ?? 0) > 20_000, `${drained[0]?.lost}`);
    assert.equal(new Set(stored.map(({ producer }) => producer)).size, 1);
    assert.equal(stored.at(-1)?.seq, 25_999);
  });

  test('files of another kind, and a session of another machine, are left alone', async () => {
    const spool = join(folder.path, 'foreign');
    await leftover(spool, 'foreign-', 5, 1 << 20);
    const [session] = readdirSync(spool).filter((name) => !name.includes('.')) as [string];
    const owner = join(spool, session, 'owner.json');
    writeFileSync(
      owner,
      JSON.stringify({ ...(JSON.parse(readFileSync(owner, 'utf8')) as object), host: 'elsewhere', boot: 'another start' }),
    );
    mkdirSync(join(spool, 'not-a-session'));
    writeFileSync(join(spool, 'notes.txt'), 'mine');
    assert.deepEqual((await drain(spool)).drained, []);
    assert.deepEqual(readdirSync(spool).toSorted((a, b) => a.localeCompare(b)), [session, 'not-a-session', 'notes.txt'].toSorted((a, b) => a.localeCompare(b))); // prettier-ignore
    // a machine that was started again under its name is the same
    writeFileSync(
      owner,
      JSON.stringify({ ...(JSON.parse(readFileSync(owner, 'utf8')) as object), host: (await import('node:os')).hostname() }),
    );
    assert.equal((await drain(spool)).drained[0]?.acked, 5);
  });

  test('the spool of a living recorder is taken away: what is in memory is delivered, the rest is rejected by number', async () => {
    const spool = join(folder.path, 'taken');
    let open = false;
    const gate: typeof fetch = async (input, init) => (open ? await fetch(input, init) : await away(input, init));
    const queue = openQueueUnderTest({ url: edge.url, seed: 5, fetch: gate, limits: { memoryBytes: 5_000 }, spool: { folder: spool, delayMs: 1, segmentBytes: 3_000, drain: false } }); // prettier-ignore
    for (let i = 0; i < 60; i++) {
      queue.record(`taken-${i}`, { fill: 100 });
      if (i % 10 === 0) await sleep(3);
    }
    await queue.delivery.persist(10_000);
    rmSync(spool, { recursive: true });
    open = true;
    await queue.delivery.flush(20_000);
    assertReconciled(queue);
    const stored = await storedOf('taken-');
    assert.ok(stored.length > 0 && queue.rejected.length > 0);
    assert.equal(stored.length + queue.rejected.length, 60);
    assert.ok(queue.rejected.every(({ code, event }) => code === 'log_corrupt' && event === null));
    queue.record('taken-late');
    await queue.delivery.flush(10_000);
    assert.equal((await storedOf('taken-late')).length, 1);
    await queue.delivery.close();
  });
});

function mountSmall(): string | false {
  mkdirSync(join(folder.path, 'small'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', join(folder.path, 'small')], { stdio: 'pipe' });
    return false;
  } catch {
    return 'a small file system cannot be mounted here (needs root)';
  }
}

const skip = mountSmall();

describe('a full disk', { skip }, () => {
  const small = join(folder.path, 'small');
  const ballast = join(small, 'ballast');
  const fill = (leave: number): void => {
    const { bavail, bsize } = statfsSync(small);
    writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - leave)));
  };
  let queue: QueueUnderTest;
  let open = false;
  const gate: typeof fetch = async (input, init) => (open ? await fetch(input, init) : await away(input, init));
  after(() => execFileSync('umount', ['-l', small]));

  test('is said by name; events wait in memory up to its limit, then calls are refused by name', async () => {
    fill(40_000);
    queue = openQueueUnderTest({ url: edge.url, seed: 1, fetch: gate, limits: { memoryBytes: 100_000 }, spool: { folder: small, delayMs: 1, segmentBytes: 20_000, drain: false } }); // prettier-ignore
    let taken = 0;
    for (; taken < 10; taken++) queue.record(`disk-${taken}`, { fill: 500 });
    await queue.delivery.persist(10_000);
    assert.throws(() => {
      for (;; taken++) queue.record(`disk-${taken}`, { fill: 500 });
    }, { code: 'overloaded', message: /ENOSPC/ }); // prettier-ignore
    assert.ok(queue.problems.some((problem) => problem?.code === 'disk_full'));
    assert.equal(queue.delivery.problem?.code, 'disk_full');
    assertReconciled(queue);
    const { spooled, queued, produced } = queue.delivery.counters;
    assert.ok(spooled > 0 && queued > 0);
    assert.equal(produced, taken);
  });

  test('in sync mode the call itself says it, and the event is not taken', async () => {
    const sync = openQueueUnderTest({ url: edge.url, seed: 2, fetch: gate, spool: { folder: small, sync: true, drain: false } });
    assert.throws(() => sync.record('sync-0', { fill: 3_000_000 }), { code: 'disk_full' });
    assert.deepEqual([sync.delivery.counters.produced, sync.delivery.counters.refused], [0, 1]);
    await sync.delivery.close();
  });

  test('with room again everything goes to disk, and with the server back all of it is delivered once', async () => {
    rmSync(ballast);
    for (let i = 0; i < 500 && queue.delivery.counters.queued > 0; i++) await sleep(20);
    assert.equal(queue.delivery.counters.queued, 0);
    assert.notEqual(queue.delivery.problem?.code, 'disk_full');
    queue.record('disk-late', { fill: 10 });
    open = true;
    await queue.delivery.flush(30_000);
    const { produced } = queue.delivery.counters;
    assert.deepEqual((await storedOf('disk-')).map(({ seq }) => seq), numbers(0, produced)); // prettier-ignore
    assertReconciled(queue);
    await queue.delivery.close();
    assert.deepEqual(readdirSync(small).filter((name) => existsSync(join(small, name))), []); // prettier-ignore
  });
});
