/** The log or the blob store fails, hangs, or comes back; and too much comes at once. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { TapedeckError, type ErrorCode } from '../../base/errors.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import type { LogRecord } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { openEdge, sampleEvent, talk, type Edge } from './edge-under-test.ts';

let edge: Edge;
before(async () => {
  edge = await openEdge({ limits: { storeMs: 1_000, inFlightBytes: 100_000, bodyBytes: 90_000 } });
});
after(() => edge.close());
beforeEach(() => {
  edge.tap = () => {};
});

const ids = async (): Promise<Set<string>> => new Set((await edge.stored()).map(({ id }) => id));
const failWith =
  (code: ErrorCode): (() => void) =>
  () => {
    throw new TapedeckError(code, `broken for a test: ${code}`);
  };

for (const code of ['log_unavailable', 'append_unclear', 'disk_full', 'not_writable', 'closed'] as const) {
  test(`${code}: 503 by name with Retry-After, and it recovers by itself`, async () => {
    const event = sampleEvent();
    edge.tap = failWith(code);
    const reply = await edge.post([event, sampleEvent({ time: -1 })]);
    assert.deepEqual([reply.status, reply.body.error.code], [503, code]);
    assert.match(reply.headers.get('retry-after') ?? '', /^[1-3]$/);
    const { accepted, rejected } = reply.body.error.details ?? {};
    assert.equal(accepted, 0);
    assert.deepEqual(rejected?.map(({ index, code: c }) => [index, c]), [[0, code], [1, 'time_range']]); // prettier-ignore
    assert.match(reply.body.error.message, /send the whole request again/);
    assert.ok(!(await ids()).has(event.id));
    edge.tap = () => {};
    assert.equal((await edge.post([event])).body.accepted, 1);
    assert.ok((await ids()).has(event.id));
  });
}

test('one partition fails: its items are named, the others are durable, and sending all again is safe', async () => {
  const events = Array.from({ length: 12 }, (_, i) => sampleEvent({ rollout: `part-${i}` }));
  const broken = partitionOf(Buffer.from('part-0'), 4);
  edge.tap = (partition) => {
    if (partition === broken) throw new TapedeckError('log_unavailable', 'no');
  };
  const reply = await edge.post(events);
  assert.deepEqual([reply.status, reply.body.error.code], [503, 'log_unavailable']);
  const details = reply.body.error.details ?? {};
  const failed = new Set(details.rejected?.map(({ id }) => id));
  assert.ok(failed.has(events[0]?.id as string) && failed.size < 12);
  assert.equal(details.accepted, 12 - failed.size);
  const log = await ids();
  for (const { id } of events) assert.equal(log.has(id), !failed.has(id));
  edge.tap = () => {};
  assert.equal((await edge.post(events)).body.accepted, 12);
  const again = await ids();
  assert.ok(events.every(({ id }) => again.has(id)));
});

for (const form of ['JSON', 'CBOR']) {
  test(`${form}: a log that hangs is append_unclear after the deadline, and its bytes stay untouched as long as it may read them`, async () => {
    let held: readonly LogRecord[] = [];
    edge.tap = (_partition, records) => {
      held = records;
      return new Promise(() => {});
    };
    const shaped = (rollout: string): unknown => (form === 'JSON' ? [sampleEvent({ rollout })] : encodeEvent(sampleEvent({ rollout })));
    const reply = await edge.post(shaped('hanging'));
    assert.deepEqual([reply.status, reply.body.error.code], [503, 'append_unclear']);
    edge.tap = () => {};
    // other requests take their turns with the pooled memory; on a slow disk some may pass the short deadline of this test
    const statuses: number[] = [];
    for (let i = 0; i < 20; i++) statuses.push((await edge.post(shaped('another'))).status);
    assert.ok(statuses.includes(200));
    assert.equal((decodeCbor(held[0]?.value as Uint8Array) as { rollout: string }).rollout, 'hanging');
  });
}

test('an unforeseen failure is internal, and its text stays inside', async () => {
  edge.tap = () => {
    throw new Error('secret detail');
  };
  const reply = await edge.post([sampleEvent()]);
  assert.deepEqual([reply.status, reply.body.error.code], [500, 'internal']);
  assert.ok(!JSON.stringify(reply.body).includes('secret'));
});

test('a blob store that fails keeps the whole request out of the log', async () => {
  const event = sampleEvent();
  const big = sampleEvent({
    rollout: 'r',
    trace: 't',
    type: 'node.appended',
    data: { index: 0, role: 'user', sampled: false, message: { content: 'x'.repeat(80_000) } },
  });
  const small = await openEdge({ limits: { valueBytes: 10_000 } });
  try {
    small.blobs.put = () => Promise.reject(new TapedeckError('disk_full', 'no space for a blob'));
    const reply = await small.post([event, big]);
    assert.deepEqual([reply.status, reply.body.error.code, reply.body.error.details?.accepted], [503, 'disk_full', 0]);
    assert.deepEqual(await small.stored(), []);
    assert.equal((await small.post([event])).body.accepted, 1, 'what needs no blob still passes');
  } finally {
    await small.close();
  }
});

test('429 by bytes in flight, told at the header: before the body is read', async (t) => {
  const edge = await openEdge({ limits: { inFlightBytes: 100_000, bodyBytes: 90_000 } });
  t.after(() => edge.close());
  const gate = Promise.withResolvers<void>();
  edge.tap = () => gate.promise;
  const padded = (bytes: number): Uint8Array => encodeEvent(sampleEvent({ extra: 'x'.repeat(bytes) }));
  const slow = edge.post(padded(70_000));
  await delay(30);
  const socket = await edge.socket();
  const answer = await talk(
    socket,
    ['POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 80000\r\n\r\n'],
    300,
  );
  assert.match(answer, /^HTTP\/1.1 429 [\s\S]*"overloaded"/);
  assert.match(answer, /retry-after: [1-3]/i);
  const refused = await edge.post(padded(60_000));
  assert.deepEqual([refused.status, refused.body.error.code], [429, 'overloaded']);
  edge.tap = () => {};
  assert.equal((await edge.post([sampleEvent()])).status, 200, 'a small request still fits');
  gate.resolve();
  assert.equal((await slow).status, 200);
  assert.equal((await edge.post(padded(60_000))).status, 200);
});

test('429 for a chunked body, by the bytes that really come', async (t) => {
  const edge = await openEdge({ limits: { inFlightBytes: 100_000, bodyBytes: 90_000 } });
  t.after(() => edge.close());
  const gate = Promise.withResolvers<void>();
  edge.tap = () => gate.promise;
  const slow = edge.post([sampleEvent({ extra: 'x'.repeat(20_000) })]);
  await delay(30);
  const piece = `2000\r\n${' '.repeat(8192)}\r\n`;
  const answer = await talk(
    await edge.socket(),
    [
      'POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
      ...Array<string>(9).fill(piece),
    ],
    500,
  );
  assert.match(answer, /^HTTP\/1.1 429 [\s\S]*"overloaded"/);
  gate.resolve();
  await slow;
});

test('close: requests in flight finish, new ones are told closed, and it does not wait for kept-alive connections', async () => {
  const own = await openEdge();
  const gate = Promise.withResolvers<void>();
  own.tap = () => gate.promise;
  const event = sampleEvent();
  const inFlight = own.post([event]);
  const opened = await own.socket();
  await delay(50);
  const started = performance.now();
  const closing = own.close();
  await delay(30);
  const body = JSON.stringify(sampleEvent());
  const head = 'POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
  const answer = talk(opened, [`${head}content-length: ${body.length}\r\n\r\n${body}`]);
  await delay(30);
  gate.resolve();
  const reply = await inFlight;
  assert.deepEqual([reply.status, reply.body.accepted, reply.headers.get('connection')], [200, 1, 'close']);
  assert.match(await answer, /^HTTP\/1.1 503 [\s\S]*"code":"closed"/);
  await closing;
  assert.ok(performance.now() - started < 3000);
});

test('close does not wait for ever: a hanging body is cut after closeMs', async () => {
  const own = await openEdge({ server: { closeMs: 200 } });
  const socket = await own.socket();
  socket
    .on('error', () => {})
    .write('POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n[');
  await delay(30);
  const started = performance.now();
  await own.close();
  assert.ok(performance.now() - started < 2000);
});
