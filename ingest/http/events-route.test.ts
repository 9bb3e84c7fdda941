import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { openEdge, sampleEvent, type Edge } from './edge-under-test.ts';

let edge: Edge;
before(async () => {
  edge = await openEdge();
});
after(() => edge.close());

const node = (over: Record<string, unknown> = {}) =>
  sampleEvent({
    type: 'node.appended',
    rollout: 'r-1',
    trace: 't-1',
    data: {
      index: 0,
      role: 'assistant',
      sampled: true,
      message: { role: 'assistant', content: 'hello' },
      tokens: {
        ids: PackedArray.of(Uint32Array.of(5, 6, 7)),
        mask: PackedArray.of(Uint8Array.of(0, 1, 1)),
        logprobs: PackedArray.of(Float32Array.of(-1, -2)),
      },
    },
    ...over,
  });
const sequence = (events: object[]): Buffer => Buffer.concat(events.map((event) => encodeEvent(event)));
const array = (events: object[]): Buffer => Buffer.concat([Buffer.from([0x98, events.length]), sequence(events)]);

test('CBOR: the log holds the very bytes that were sent, keyed by rollout, in its partition', async () => {
  const events = [node({ rollout: 'r-cbor', future: { keep: [1, 2n ** 63n, 'x'] } }), node({ rollout: 'r-cbor-2' })];
  const reply = await edge.post(array(events));
  assert.deepEqual([reply.status, reply.body], [200, { accepted: 2, duplicates: 0, rejected: [] }]);
  const stored = (await edge.stored()).filter(({ id }) => events.some((event) => event.id === id));
  assert.equal(stored.length, 2);
  for (const { id, value, key, partition } of stored) {
    const event = events.find((e) => e.id === id) as Record<string, unknown>;
    assert.deepEqual(Buffer.from(value), Buffer.from(encodeEvent(event)));
    assert.equal(key, event['rollout']);
    assert.equal(partition, partitionOf(Buffer.from(key), 4));
  }
});

test('a single map, a sequence of maps and an array of either length are all bodies', async () => {
  const one = node();
  assert.equal((await edge.post(Buffer.from(encodeEvent(one)))).body.accepted, 1);
  assert.equal((await edge.post(sequence([node(), node()]))).body.accepted, 2);
  assert.equal((await edge.post(Buffer.concat([Buffer.from([0x9f]), sequence([node(), node()]), Buffer.from([0xff])]))).body.accepted, 2);
  assert.deepEqual((await edge.post(Buffer.from([0x80]))).body, { accepted: 0, duplicates: 0, rejected: [] });
});

test('JSON: one event, an array, NDJSON; token streams as numbers and as base64 become typed arrays', async () => {
  const base64 = Buffer.from(Uint32Array.of(9, 8).buffer).toString('base64');
  const withTokens = (tokens: object) => node({ data: { index: 1, parent: 0, role: 'assistant', sampled: true, tokens } });
  const numbers = withTokens({ ids: [9, 8], mask: [1, 0], logprobs: [-0.5] });
  const text = withTokens({ ids: base64, mask: [true, false], logprobs: [{ $float: '-Infinity' }] });
  assert.equal((await edge.post([numbers, text])).body.accepted, 2);
  assert.equal((await edge.post(sampleEvent())).body.accepted, 1);
  const lines = [sampleEvent(), sampleEvent()].map((event) => JSON.stringify(event));
  const reply = await edge.post(Buffer.from(`${lines[0]}\n\n  \r\n${lines[1]}`), { 'content-type': 'application/x-ndjson' });
  assert.equal(reply.body.accepted, 2);
  const stored = await edge.stored();
  for (const { id } of [numbers, text]) {
    const event = stored.find((s) => s.id === id)?.event ?? {};
    const { tokens } = event['data'] as { tokens: Record<string, PackedArray<'u32'>> };
    assert.deepEqual([...(tokens['ids'] as PackedArray<'u32'>).typed()], [9, 8]);
    assert.equal(tokens['logprobs']?.dtype, 'f32');
  }
});

test('gzip and zstd bodies are the same events', async () => {
  const body = array([node(), node()]);
  assert.equal((await edge.post(gzipSync(body), { 'content-encoding': 'gzip' })).body.accepted, 2);
  assert.equal((await edge.post(zstdCompressSync(body), { 'content-encoding': 'zstd' })).body.accepted, 2);
  const lines = Buffer.from(`${JSON.stringify(sampleEvent())}\n`);
  const twice = Buffer.concat([zstdCompressSync(lines), zstdCompressSync(Buffer.from(JSON.stringify(sampleEvent())))]);
  assert.equal((await edge.post(twice, { 'content-encoding': 'zstd', 'content-type': 'application/x-ndjson' })).body.accepted, 2);
});

test('one bad event never fails its batch: each is named with index, id, code, field and remedy', async () => {
  const good = [sampleEvent(), sampleEvent()];
  const bad = sampleEvent({ time: 'yesterday' });
  const reply = await edge.post([good[0], bad, good[1], 7, { nothing: true }]);
  assert.equal(reply.status, 200);
  assert.equal(reply.body.accepted, 2);
  assert.deepEqual(reply.body.rejected.map(({ index, id, code }) => ({ index, id, code })).slice(0, 2), [
    { index: 1, id: bad.id, code: reply.body.rejected[0]?.code },
    { index: 3, id: null, code: 'invalid_event' },
  ]);
  assert.equal(reply.body.rejected[0]?.field, 'time');
  const ids = new Set((await edge.stored()).map(({ id }) => id));
  assert.ok(good.every(({ id }) => ids.has(id)) && !ids.has(bad.id));
});

test('an unknown type is accepted into the log and listed as dead-lettered', async () => {
  const event = sampleEvent({ type: 'dream.recorded', data: { depth: 3 } });
  const reply = await edge.post([event]);
  assert.equal(reply.body.accepted, 1);
  assert.deepEqual(
    reply.body.deadLettered?.map(({ index, id, code }) => ({ index, id, code })),
    [{ index: 0, id: event.id, code: 'unknown_type' }],
  );
  assert.ok((await edge.stored()).some(({ id }) => id === event.id));
});

test('decisions of a feed are refused here, and go to the feeds log where one is given', async () => {
  const event = sampleEvent({ type: 'feed.created', run: undefined, data: { feed: 'f-1', timeline: 0, spec: {}, specHash: 'x' } });
  const refused = await edge.post([event]);
  assert.deepEqual([refused.status, refused.body.accepted, refused.body.rejected[0]?.code], [200, 0, 'bad_request']);
  assert.match(refused.body.rejected[0]?.message ?? '', /only the feed itself/);
  const inside = await openEdge({ feeds: true });
  try {
    assert.equal((await inside.post([event, sampleEvent()])).body.accepted, 2);
    assert.deepEqual(
      (await inside.stored()).map((s) => s.event['type']),
      ['metric.recorded'],
    );
  } finally {
    await inside.close();
  }
});

test('the same id twice in a body: same content is a duplicate in any encoding, other content is id_reused', async () => {
  const event = sampleEvent();
  const reply = await edge.post([
    event,
    event,
    Object.fromEntries(Object.entries(event).toReversed()),
    { ...event, data: { scope: 'run', name: 'loss', value: -1 } },
  ]);
  assert.deepEqual([reply.body.accepted, reply.body.duplicates], [1, 2]);
  assert.deepEqual(
    reply.body.rejected.map(({ index, code }) => ({ index, code })),
    [{ index: 3, code: 'id_reused' }],
  );
  assert.equal((await edge.stored()).filter(({ id }) => id === event.id).length, 1);
});

test('events of a deleted run are refused, from the moment its deletion is durable', async () => {
  const run = 'run-to-delete';
  assert.equal((await edge.post([sampleEvent({ run })])).body.accepted, 1);
  assert.equal((await edge.post([sampleEvent({ run, type: 'run.deleted', data: {} })])).body.accepted, 1);
  const reply = await edge.post([sampleEvent({ run }), sampleEvent({ run, project: 'other' }), sampleEvent()]);
  assert.equal(reply.body.accepted, 2);
  assert.deepEqual(
    reply.body.rejected.map(({ index, code, field }) => ({ index, code, field })),
    [{ index: 0, code: 'run_deleted', field: 'run' }],
  );
  assert.equal((await edge.post([sampleEvent({ run, type: 'run.deleted', data: {} })])).body.accepted, 1);
  edge.tombstones.add(undefined, 'from-outside');
  assert.equal((await edge.post([sampleEvent({ run: 'from-outside' })])).body.rejected[0]?.code, 'run_deleted');
});

test('values over the limit go to the blob store first and come back whole', async () => {
  const content = 'long '.repeat(100_000);
  const event = node({ data: { index: 0, role: 'user', sampled: false, message: { role: 'user', content } } });
  assert.equal((await edge.post(Buffer.from(encodeEvent(event)))).body.accepted, 1);
  const stored = (await edge.stored()).find(({ id }) => id === event.id);
  assert.ok(stored !== undefined && stored.value.length < 1000);
  assert.deepEqual((stored.event['data'] as { message: unknown }).message, { role: 'user', content });
});

test('an event that is too large without its large values is refused by name, the rest goes on', async () => {
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`part${i}`, 'x'.repeat(100_000)]));
  const event = node({ data: { index: 0, role: 'user', sampled: false, message: many } });
  const reply = await edge.post(array([event, node()]));
  assert.deepEqual([reply.status, reply.body.accepted], [200, 1]);
  const [rejected] = reply.body.rejected;
  assert.deepEqual([rejected?.code, rejected?.id], ['event_too_large', event.id]);
  assert.match(rejected?.message ?? '', /1200\d+ bytes, the limit is 1000000 .*262144.*split/);
});

test('a batch spreads over partitions with one append each, in the order of the body', async () => {
  const appends: number[] = [];
  edge.tap = (partition, records) => void appends.push(partition, records.length);
  const events = Array.from({ length: 60 }, (_, i) => sampleEvent({ rollout: `spread-${i % 7}` }));
  assert.equal((await edge.post(events)).body.accepted, 60);
  edge.tap = () => {};
  const partitions = appends.filter((_, i) => i % 2 === 0);
  assert.equal(new Set(partitions).size, partitions.length);
  const order = new Map(events.map(({ id }, i) => [id, i]));
  const mine = (await edge.stored()).filter(({ id }) => order.has(id));
  for (let p = 0; p < 4; p++) {
    const indexes = mine.filter(({ partition }) => partition === p).map(({ id }) => order.get(id) as number);
    assert.deepEqual(
      indexes,
      indexes.toSorted((a, b) => a - b),
    );
  }
});
