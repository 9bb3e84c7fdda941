/** Idempotency keys and producer numbers over HTTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { TapedeckError } from '../../base/errors.ts';
import { observeProducer, producerOf, type Producer, type ProducerState } from '../accept-sequence.ts';
import { openEdge, sampleEvent, type Edge, type EdgeOptions } from './edge-under-test.ts';

async function withEdge(options: EdgeOptions, use: (edge: Edge) => Promise<void>): Promise<void> {
  const edge = await openEdge(options);
  try {
    await use(edge);
  } finally {
    await edge.close();
  }
}
const numbered = (seq: number, over: Record<string, unknown> = {}, epoch = 0, id = 'p'): ReturnType<typeof sampleEvent> =>
  sampleEvent({ producer: { id, epoch, seq }, ...over });
const codes = (rejected: readonly { index: number; code: string }[]): [number, string][] =>
  rejected.map(({ index, code }) => [index, code]);

test('Idempotency-Key: the stored answer, a join in flight, a mismatch; and nothing is appended twice', () =>
  withEdge({}, async (edge) => {
    const key = { 'idempotency-key': 'batch-1' };
    const events = [sampleEvent(), sampleEvent({ time: -1 })];
    const first = await edge.post(events, key);
    assert.equal(first.headers.get('idempotency-replayed'), null);
    const again = await edge.post(events, key);
    assert.deepEqual([again.status, again.body, again.headers.get('idempotency-replayed')], [first.status, first.body, 'true']);
    const other = await edge.post([sampleEvent()], key);
    assert.deepEqual([other.status, other.body.error.code], [422, 'idempotency_mismatch']);
    assert.equal((await edge.stored()).length, 1);

    const gate = Promise.withResolvers<void>();
    edge.tap = () => gate.promise;
    const joined = [sampleEvent()];
    const both = [edge.post(joined, { 'idempotency-key': 'batch-2' }), edge.post(joined, { 'idempotency-key': 'batch-2' })];
    await delay(30);
    gate.resolve();
    const replies = await Promise.all(both);
    assert.deepEqual(
      replies.map(({ body }) => body.accepted),
      [1, 1],
    );
    assert.equal((await edge.stored()).length, 2);
  }));

test('Idempotency-Key: a failed answer is not kept, and a bad key is named', () =>
  withEdge({}, async (edge) => {
    const key = { 'idempotency-key': 'batch-1' };
    const events = [sampleEvent()];
    edge.tap = () => {
      throw new TapedeckError('log_unavailable', 'no');
    };
    assert.equal((await edge.post(events, key)).status, 503);
    edge.tap = () => {};
    assert.equal((await edge.post(events, key)).body.accepted, 1);
    const long = await edge.post(events, { 'idempotency-key': 'x'.repeat(256) });
    assert.deepEqual([long.status, long.body.error.code], [400, 'bad_request']);
  }));

test('producer numbers: seen ones are duplicates, a gap is refused with the number expected, and it goes on from there', () =>
  withEdge({}, async (edge) => {
    assert.equal((await edge.post([numbered(0), numbered(1)])).body.accepted, 2);
    const again = await edge.post([numbered(0), numbered(1), numbered(2)]);
    assert.deepEqual([again.body.accepted, again.body.duplicates], [1, 2]);
    const gap = await edge.post([numbered(5), sampleEvent(), numbered(3)]);
    assert.deepEqual([gap.status, gap.body.accepted, codes(gap.body.rejected)], [200, 2, [[0, 'producer_gap']]]);
    assert.match(gap.body.rejected[0]?.message ?? '', /expected 3; send again from seq 3, or start epoch 1/);
    assert.equal((await edge.post([numbered(4)])).body.accepted, 1);
    assert.equal((await edge.stored()).length, 6);
  }));

test('a lower epoch is fenced: per item, and 409 when all of a request is', () =>
  withEdge({}, async (edge) => {
    assert.equal((await edge.post([numbered(0), numbered(0, {}, 1)])).body.accepted, 2);
    const some = await edge.post([numbered(1), numbered(1, {}, 1)]);
    assert.deepEqual([some.status, some.body.accepted, codes(some.body.rejected)], [200, 1, [[0, 'producer_fenced']]]);
    const all = await edge.post([numbered(1), numbered(2)]);
    assert.deepEqual([all.status, all.body.error.code, all.body.error.details?.accepted], [409, 'producer_fenced', 0]);
  }));

test('a refused event uses up its number, one that cannot be read may hide one: the batch goes on', () =>
  withEdge({}, async (edge) => {
    const reply = await edge.post([numbered(0), numbered(1, { time: -1 }), numbered(2), 7, numbered(4), numbered(6)]);
    assert.deepEqual([reply.body.accepted, codes(reply.body.rejected)], [3, [[1, 'time_range'], [3, 'invalid_event'], [5, 'producer_gap']]]); // prettier-ignore
    assert.equal((await edge.post([numbered(5)])).body.accepted, 1);
  }));

test('a state moves only when it is durable: what failed is taken when it comes again', () =>
  withEdge({}, async (edge) => {
    const batch = Array.from({ length: 12 }, (_, seq) => numbered(seq, { rollout: `r-${seq}` }));
    let failing = 0;
    edge.tap = (partition) => {
      failing = partition;
      if (partition === 2) throw new TapedeckError('log_unavailable', 'no');
    };
    const reply = await edge.post(batch);
    assert.equal(reply.status, 503, `append to ${failing}`);
    edge.tap = () => {};
    const again = await edge.post(batch);
    assert.equal(again.status, 200);
    assert.equal(again.body.accepted + again.body.duplicates, 12);
    const stored = new Set((await edge.stored()).map(({ id }) => id));
    assert.ok(batch.every(({ id }) => stored.has(id)));
    assert.equal((await edge.post(batch)).body.duplicates, 12);
  }));

test('requests of one producer at the same time are taken one after another', () =>
  withEdge({}, async (edge) => {
    const gate = Promise.withResolvers<void>();
    let appends = 0;
    edge.tap = () => (appends++ === 0 ? gate.promise : undefined);
    const first = edge.post([numbered(0), numbered(1)]);
    await delay(30);
    const second = edge.post([numbered(2), numbered(3)]);
    const other = await edge.post([numbered(0, {}, 0, 'other')]);
    assert.equal(other.body.accepted, 1);
    await delay(30);
    assert.equal(appends, 2);
    gate.resolve();
    assert.deepEqual([(await first).body.accepted, (await second).body.accepted], [2, 2]);
  }));

test('producers and ids belong to their project: the same name and the same id of another one are something else', () =>
  withEdge({}, async (edge) => {
    const id = sampleEvent().id as string;
    assert.equal((await edge.post([numbered(0, { id }, 7), numbered(1, {}, 7)])).body.accepted, 2);
    const stranger = { project: 'stranger' };
    const fences = await edge.post([numbered(0, { id, ...stranger }, 9), numbered(1, stranger, 9)]);
    assert.deepEqual([fences.body.accepted, fences.body.duplicates, fences.body.rejected], [2, 0, []]);
    const goesOn = await edge.post([numbered(2, {}, 7)]);
    assert.deepEqual([goesOn.body.accepted, goesOn.body.rejected], [1, []], 'not fenced by the epoch of the other');
    const mixed = [numbered(3, {}, 7), numbered(2, stranger, 9), numbered(4, {}, 7), numbered(3, stranger, 9)];
    assert.deepEqual((await edge.post(mixed)).body.accepted, 4);
    const same = sampleEvent();
    const both = await edge.post([same, { ...same, ...stranger, time: 1_790_000_000_000_001 }]);
    assert.deepEqual([both.body.accepted, both.body.rejected], [2, []]);
    const states = new Map<string, ProducerState>();
    for (const { event } of await edge.stored()) {
      const producer = producerOf(event);
      if (producer !== null && producer !== 'unreadable') observeProducer(states, producer);
    }
    assert.deepEqual([...states.values()].map(({ epoch, next }) => [epoch, next]), [[7, 5], [9, 4]]); // prettier-ignore
  }));

test('the state survives a restart: rebuilt from the log, it knows duplicates, gaps and fences', async () => {
  const states = new Map<string, ProducerState>();
  await withEdge({}, async (edge) => {
    assert.equal((await edge.post([numbered(0, {}, 3), numbered(1, {}, 3), numbered(2, {}, 3)])).body.accepted, 3);
    for (const { event } of await edge.stored()) observeProducer(states, producerOf(event) as Producer);
  });
  await withEdge({ loadProducers: async () => states }, async (edge) => {
    const reply = await edge.post([numbered(2, {}, 3), numbered(4, {}, 3), numbered(0, {}, 2), numbered(3, {}, 3)]);
    assert.deepEqual([reply.body.accepted, reply.body.duplicates, codes(reply.body.rejected)], [1, 1, [[1, 'producer_gap'], [2, 'producer_fenced']]]); // prettier-ignore
  });
});

test('while states are being loaded, numbered events wait outside and others pass', () =>
  withEdge({ loadAtStart: false }, async (edge) => {
    const refused = await edge.post([numbered(0)]);
    assert.deepEqual([refused.status, refused.body.error.code], [503, 'store_unavailable']);
    assert.equal((await edge.post([sampleEvent()])).body.accepted, 1);
    assert.equal((await fetch(`${edge.url}/readyz`)).status, 503);
    await edge.producers.load();
    assert.equal((await fetch(`${edge.url}/readyz`)).status, 200);
    assert.equal((await edge.post([numbered(0)])).body.accepted, 1);
  }));
