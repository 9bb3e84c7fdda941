/** The queue of a recorder over a real edge: whatever the way to the server does, every event ends in the log once, or is rejected by name, and nothing is reordered. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { seededRandom } from '../../base/random.ts';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { producerKey } from '../../ingest/accept-sequence.ts';
import { openEdge, type Edge, type Stored } from '../../ingest/http/edge-under-test.ts';
import { temporaryFolder } from '../server.ts';
import { assertReconciled, nameOf, openQueueUnderTest, type QueueUnderTest } from './queue-under-test.ts';

let edge: Edge;
const folder = temporaryFolder('sdk-delivery');
before(async () => {
  edge = await openEdge();
});
afterEach(() => {
  edge.tap = () => {};
});
after(async () => {
  await edge.close();
  folder.remove();
});

const keyOf = ({ delivery }: QueueUnderTest): string => producerKey({ project: DEFAULT_PROJECT, id: delivery.producer.id });

type Numbered = { readonly name: string; readonly producer: string; readonly seq: number; readonly partition: number; readonly id: string };

async function storedOf(prefix: string): Promise<Numbered[]> {
  const all: Stored[] = await edge.stored();
  return all
    .map(({ event, partition, id }) => {
      const { producer, data } = event as { producer?: { id: string; seq: number }; data: { name?: string } };
      return { name: data.name ?? '', producer: producer?.id ?? '', seq: producer?.seq ?? -1, partition, id };
    })
    .filter(({ name }) => name.startsWith(prefix));
}

/** Each name once, whatever was stored twice under the same id. */
function once(stored: readonly Numbered[]): string[] {
  const ids = new Map(stored.map(({ name, id }) => [name, id]));
  for (const { name, id } of stored) assert.equal(ids.get(name), id, `${name} is stored under two ids`);
  return [...ids.keys()].toSorted((a, b) => a.localeCompare(b));
}

const namesOf = (prefix: string, count: number, skip: ReadonlySet<number> = new Set()): string[] =>
  Array.from({ length: count }, (_, i) => i).filter((i) => !skip.has(i)).map((i) => `${prefix}${String(i).padStart(5, '0')}`); // prettier-ignore

function recordAll(queue: QueueUnderTest, prefix: string, count: number, bad: ReadonlySet<number> = new Set(), fill = 0): void {
  for (const [i, name] of namesOf(prefix, count).entries()) queue.record(name, { bad: bad.has(i), rollout: `${prefix}${i % 5}`, fill });
}

describe('a way that fails', () => {
  const SEEDS = Number(process.env['TAPEDECK_SEEDS'] ?? 20);
  const first = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);

  test(`at random, seeds from ${first}: everything is stored once or rejected by name`, { timeout: 300_000 }, async () => {
    const checks: ((stored: readonly Numbered[]) => void)[] = [];
    for (let seed = first; seed < first + SEEDS; seed++) checks.push(await campaign(seed));
    const stored = await storedOf('s');
    for (const check of checks) check(stored);
  });

  /** Records under faults until everything is settled; the check compares with what is stored then. */
  async function campaign(seed: number): Promise<(stored: readonly Numbered[]) => void> {
    const random = seededRandom(seed);
    const prefix = `s${seed}-`;
    let faults = 12;
    edge.tap = () => {
      if (faults > 0 && random.next() < 0.15) {
        faults--;
        throw new TapedeckError('disk_full', 'no room, says the test');
      }
    };
    const faulty: typeof fetch = async (input, init) => {
      const dice = faults > 0 ? random.next() : 1;
      if (dice < 0.5) faults--;
      if (dice < 0.1) throw new TypeError('fetch failed', { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
      if (dice < 0.2) return answer(429, 'overloaded', { 'retry-after': '0' });
      if (dice < 0.25) return new Response('<html>bad gateway</html>', { status: 502 });
      if (dice < 0.3 && eventsIn(init) > 1) return answer(413, 'body_too_large');
      if (dice < 0.35) return answer(500, 'internal');
      if (dice < 0.4) return answer(409, 'producer_fenced');
      const response = await fetch(input, init);
      if (dice < 0.5) throw new TypeError('the connection broke during the answer');
      return response;
    };
    const spool =
      random.next() < 0.7 ? { folder: folder.path, delayMs: random.next() < 0.5 ? 1 : 1000, segmentBytes: 4096, drain: false } : undefined;
    const queue = openQueueUnderTest({
      url: edge.url, seed, fetch: faulty, limits: { batchEvents: 1 + Math.floor(random.next() * 12), memoryBytes: spool ? 3000 : 1 << 20 }, ...(spool && { spool }),
    }); // prettier-ignore
    const count = 40 + Math.floor(random.next() * 60);
    const bad = new Set(Array.from({ length: count }, (_, i) => i).filter(() => random.next() < 0.1));
    for (const [i, name] of namesOf(prefix, count).entries()) {
      queue.record(name, { bad: bad.has(i), rollout: `${prefix}${i % 5}` });
      assertReconciled(queue);
      if (random.next() < 0.1) await sleep(1);
    }
    await queue.delivery.flush(60_000);
    assertReconciled(queue);
    assert.deepEqual(queue.rejected.map(({ event }) => nameOf(event as Uint8Array)).toSorted((a, b) => a.localeCompare(b)), namesOf(prefix, count).filter((_, i) => bad.has(i))); // prettier-ignore
    const { produced, acked, rejected } = queue.delivery.counters;
    assert.deepEqual({ produced, acked, rejected }, { produced: count, acked: count - bad.size, rejected: bad.size });
    assert.equal(queue.delivery.problem, null);
    await queue.delivery.close();
    return (stored) =>
      assert.deepEqual(once(stored.filter(({ name }) => name.startsWith(prefix))), namesOf(prefix, count, bad), `seed ${seed}`);
  }
});

function eventsIn(init: RequestInit | undefined): number {
  const body = Buffer.from(init?.body as Uint8Array);
  const [head = 0] = body[0] === 0x1f && body[1] === 0x8b ? gunzipSync(body) : body;
  return head - 0x80;
}

function answer(status: number, code: string, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify({ error: { code, message: `says the test: ${code}` } }), { status, headers });
}

test('numbers are gap-free but for what was rejected, and events of a rollout keep their order', async () => {
  const queue = openQueueUnderTest({ url: edge.url, seed: 1 });
  const bad = new Set([3, 17, 18, 99]);
  recordAll(queue, 'order-', 100, bad);
  await queue.delivery.flush(10_000);
  const stored = await storedOf('order-');
  assert.deepEqual(stored.map(({ seq }) => seq).toSorted((a, b) => a - b), Array.from({ length: 100 }, (_, i) => i).filter((i) => !bad.has(i))); // prettier-ignore
  assert.ok(stored.every(({ producer }) => producer === queue.delivery.producer.id));
  for (const partition of [0, 1, 2, 3]) {
    const seqs = stored.filter((each) => each.partition === partition).map(({ seq }) => seq);
    assert.deepEqual(
      seqs,
      seqs.toSorted((a, b) => a - b),
    );
  }
  await queue.delivery.close();
});

test('a server that forgot the numbers of refused events is helped over them, with the same producer', async () => {
  const queue = openQueueUnderTest({ url: edge.url, seed: 2, limits: { batchEvents: 4 } });
  recordAll(queue, 'forgot-', 4, new Set([2, 3]));
  await queue.delivery.flush(10_000);
  // what a restart leaves: the numbers in the log
  edge.producers.commit(keyOf(queue), { epoch: 0, certain: 0, next: 2 });
  queue.record('forgot-late');
  await queue.delivery.flush(10_000);
  const stored = await storedOf('forgot-');
  assert.deepEqual(stored.find(({ name }) => name === 'forgot-late'), { ...stored.find(({ name }) => name === 'forgot-late'), seq: 4, producer: queue.delivery.producer.id }); // prettier-ignore
  assert.equal(queue.rejected.length, 2);
  await queue.delivery.close();
});

test('a server that knows less than that gets a new producer from there on; nothing is lost', async () => {
  const queue = openQueueUnderTest({ url: edge.url, seed: 3 });
  recordAll(queue, 'less-', 5);
  await queue.delivery.flush(10_000);
  edge.producers.commit(keyOf(queue), { epoch: 0, certain: 0, next: 0 });
  queue.record('less-6');
  queue.record('less-7');
  await queue.delivery.flush(10_000);
  const stored = await storedOf('less-');
  const late = stored.filter(({ name }) => name === 'less-6' || name === 'less-7');
  assert.deepEqual(
    late.map(({ seq }) => seq).toSorted((a, b) => a - b),
    [0, 1],
  );
  assert.notEqual(late[0]?.producer, queue.delivery.producer.id);
  assert.equal(late[0]?.producer.length, queue.delivery.producer.id.length);
  assert.equal(once(stored).length, 7);
  await queue.delivery.close();
});

test('fenced by a newer epoch, it goes on under a new producer, and says so', async () => {
  const queue = openQueueUnderTest({ url: edge.url, seed: 4 });
  recordAll(queue, 'fenced-', 5);
  await queue.delivery.flush(10_000);
  edge.producers.commit(keyOf(queue), { epoch: 1, certain: 0, next: 0 });
  recordAll(queue, 'fenced-again-', 5);
  await queue.delivery.flush(10_000);
  assert.equal(once(await storedOf('fenced-')).length, 10);
  assert.ok(queue.problems.some((problem) => problem?.code === 'producer_fenced'));
  assert.equal(queue.delivery.problem, null);
  assert.deepEqual(queue.rejected, []);
  await queue.delivery.close();
});

test('two copies of one process never lose to each other: whoever finds its numbers used takes others', async () => {
  const one = openQueueUnderTest({ url: edge.url, seed: 5 });
  const copy = openQueueUnderTest({ url: edge.url, seed: 6, session: one.session });
  assert.equal(one.delivery.producer.id, copy.delivery.producer.id);
  for (let i = 0; i < 5; i++) {
    one.record(`clone-one-${i}`);
    await one.delivery.flush(10_000);
    copy.record(`clone-two-${i}`);
    await copy.delivery.flush(10_000);
  }
  const names = once(await storedOf('clone-'));
  assert.equal(names.length, 10, names.join());
  await Promise.all([one.delivery.close(), copy.delivery.close()]);
});

test('an event that makes the server fail again and again is rejected, and those around it pass', async () => {
  const poisoned: typeof fetch = async (input, init) => {
    const body = Buffer.from(init?.body as Uint8Array);
    return body.includes('poison-00007') ? answer(500, 'internal') : await fetch(input, init);
  };
  const queue = openQueueUnderTest({ url: edge.url, seed: 7, fetch: poisoned, limits: { batchEvents: 16 } });
  recordAll(queue, 'poison-', 20);
  await queue.delivery.flush(60_000);
  assert.deepEqual(queue.rejected.map(({ seq, code }) => ({ seq, code })), [{ seq: 7, code: 'internal' }]); // prettier-ignore
  assert.deepEqual(once(await storedOf('poison-')), namesOf('poison-', 20, new Set([7])));
  await queue.delivery.close();
});

test('a wrong address or key costs no event: they wait, the reason can be read, and flush says it', async () => {
  let right = false;
  const strict: typeof fetch = async (input, init) => (right ? await fetch(input, init) : new Response('no', { status: 401 }));
  const queue = openQueueUnderTest({ url: edge.url, seed: 9, fetch: strict });
  recordAll(queue, 'key-', 10);
  await assert.rejects(queue.delivery.flush(300), { code: 'deadline_exceeded' });
  assert.match(queue.delivery.problem?.message ?? '', /401/);
  assert.equal(queue.delivery.counters.queued, 10);
  right = true;
  await queue.delivery.flush(10_000);
  assert.equal(once(await storedOf('key-')).length, 10);
  await queue.delivery.close();
});

test('a server slower than a request may take is asked again; what it stored meanwhile counts once', async () => {
  let slow = 3;
  const late: typeof fetch = async (input, init) => {
    const answered = await fetch(input, { ...init, signal: null });
    if (slow-- > 0) await new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(new Error('too late'))));
    return answered;
  };
  const queue = openQueueUnderTest({ url: edge.url, seed: 16, fetch: late, limits: { requestMs: 5_000 } });
  recordAll(queue, 'slow-', 10);
  await queue.delivery.flush(20_000);
  const { acked, duplicates } = queue.delivery.counters;
  assert.deepEqual([acked, duplicates], [10, 10]);
  assert.equal((await storedOf('slow-')).length, 10);
  assert.ok(queue.problems.some((problem) => problem?.code === 'log_unavailable'));
  await queue.delivery.close();
});

test('Retry-After is waited for, by new events and by flush alike', async () => {
  const asked: number[] = [];
  const busy: typeof fetch = async (input, init) => {
    asked.push(performance.now());
    return asked.length === 1 ? answer(429, 'overloaded', { 'retry-after': '50' }) : await fetch(input, init);
  };
  const queue = openQueueUnderTest({ url: edge.url, seed: 10, fetch: busy });
  queue.record('busy-0');
  while (asked.length === 0) await sleep(5);
  queue.record('busy-1');
  await queue.delivery.flush(20_000);
  assert.ok((asked[1] as number) - (asked[0] as number) >= 480, `${asked[1]} ${asked[0]}`);
  await queue.delivery.close();
});

test('a clock that goes backwards changes times, nothing else', async () => {
  const { hurriedClock } = await import('./queue-under-test.ts');
  let now = 1_760_000_000_000_000;
  const queue = openQueueUnderTest({ url: edge.url, seed: 11, clock: { ...hurriedClock, nowMicros: () => (now -= 1_000_000) }, spool: { folder: folder.path, delayMs: 1, drain: false } }); // prettier-ignore
  recordAll(queue, 'back-', 50);
  await queue.delivery.flush(10_000);
  assert.deepEqual(once(await storedOf('back-')), namesOf('back-', 50));
  await queue.delivery.close();
});

test('memory is bounded: without a spool a full queue refuses by name and takes again when there is room', async () => {
  let open = false;
  const gate: typeof fetch = async (input, init) => (open ? await fetch(input, init) : answer(503, 'log_unavailable'));
  const queue = openQueueUnderTest({ url: edge.url, seed: 12, fetch: gate, limits: { memoryBytes: 20_000 } });
  let taken = 0;
  assert.throws(() => {
    for (;; taken++) queue.record(`full-${taken}`, { fill: 500 });
  }, { code: 'overloaded' }); // prettier-ignore
  assert.ok(queue.delivery.counters.queuedBytes <= 20_000);
  assert.equal(queue.delivery.counters.refused, 1);
  assertReconciled(queue);
  let ready = false;
  const waiting = queue.delivery.ready().then(() => (ready = true));
  await sleep(20);
  assert.equal(ready, false);
  open = true;
  await waiting;
  queue.record(`full-${taken}`, { fill: 500 });
  await queue.delivery.flush(10_000);
  assert.equal(once(await storedOf('full-')).length, taken + 1);
  await queue.delivery.close();
});

test('with a spool, memory stays bounded through an outage and everything comes from disk afterwards, in order', async () => {
  let open = false;
  const gate: typeof fetch = async (input, init) => (open ? await fetch(input, init) : answer(503, 'log_unavailable'));
  const queue = openQueueUnderTest({ url: edge.url, seed: 13, fetch: gate, limits: { memoryBytes: 30_000 }, spool: { folder: folder.path, delayMs: 1, segmentBytes: 20_000, drain: false } }); // prettier-ignore
  for (const [i, name] of namesOf('outage-', 600).entries()) {
    queue.record(name, { rollout: 'one', fill: 400 });
    assert.ok(queue.delivery.counters.queuedBytes <= 30_000);
    if (i % 50 === 0) await sleep(2);
  }
  await queue.delivery.persist(10_000);
  assert.equal(queue.delivery.counters.spooled, 600);
  assertReconciled(queue);
  open = true;
  await queue.delivery.flush(30_000);
  assert.deepEqual((await storedOf('outage-')).map(({ name }) => name), namesOf('outage-', 600)); // prettier-ignore
  await queue.delivery.close();
});

test('a full spool refuses by name, and takes again when the server has taken what is there', async () => {
  let open = false;
  const gate: typeof fetch = async (input, init) => (open ? await fetch(input, init) : answer(503, 'log_unavailable'));
  const queue = openQueueUnderTest({
    url: edge.url, seed: 14, fetch: gate, limits: { memoryBytes: 10_000 }, spool: { folder: folder.path, delayMs: 1, segmentBytes: 5_000, maxBytes: 40_000, drain: false },
  }); // prettier-ignore
  let taken = 0;
  assert.throws(() => {
    for (;; taken++) queue.record(`limit-${taken}`, { fill: 400 });
  }, { code: 'overloaded', message: /maxBytes|limit of 40000/ }); // prettier-ignore
  assert.ok(queue.delivery.counters.spooledBytes <= 40_000);
  assert.ok(queue.problems.some((problem) => problem?.code === 'overloaded'));
  assertReconciled(queue);
  open = true;
  await queue.delivery.ready();
  await queue.delivery.flush(10_000);
  for (let i = 0; i < 50; i++) queue.record(`limit-${taken++}`, { fill: 10 });
  await queue.delivery.flush(10_000);
  assert.equal(once(await storedOf('limit-')).length, taken);
  await queue.delivery.close();
});

test('a process that inherited the queue sends none of it', async () => {
  let isParent = true;
  let requests = 0;
  const counting: typeof fetch = async (input, init) => {
    requests++;
    return await fetch(input, init);
  };
  const queue = openQueueUnderTest({ url: edge.url, seed: 15, fetch: counting, limits: { lingerMs: 2000 }, isOwner: () => isParent });
  recordAll(queue, 'inherited-', 5);
  isParent = false;
  await assert.rejects(queue.delivery.flush(200), { code: 'deadline_exceeded' });
  assert.equal(requests, 0);
});
