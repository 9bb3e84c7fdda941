/** Streams that are silent, that nobody reads, that are left, or that are too much: what the harness gets, and what the record says. Real engine, real sockets. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
const ask = (content: string, more: Record<string, unknown> = {}) => ({
  model: 'toy',
  stream: true,
  messages: [{ role: 'user', content }],
  ...more,
});

let engine: FakeEngine;
let gateway: TestGateway;
before(async () => {
  engine = await startFakeEngine();
  gateway = await openGateway({
    upstreams: {
      main: { kind: 'vllm', url: engine.url, models: ['toy'] },
      goes: { kind: 'vllm', url: engine.url, models: { 'toy-goes-on': 'toy' }, stopUpstreamOnDisconnect: false },
    },
    limits: { keepAliveMs: 500, stallMs: 1_000, answerBytes: 40_000, eventBytes: 60_000 },
  });
});
after(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => engine.clearRequests());

const send = (made: Made, body: unknown, headers: Record<string, string> = {}) =>
  gateway.post(CHAT, body, { authorization: `Bearer ${made.key}`, ...headers });
const callsOf = async (made: Made) => (await gateway.eventsOf('call.recorded', made.trace)).map((e) => e.data);
/** The only call of the trace, once it is recorded. */
async function theCall(made: Made): Promise<Awaited<ReturnType<typeof callsOf>>[number]> {
  for (let tries = 0; tries < 1_500; tries++) {
    const [call] = await callsOf(made);
    if (call !== undefined) return call;
    await sleep(20);
  }
  return assert.fail('the call is not recorded');
}

/** A client that speaks HTTP by hand, to read as it likes. */
function rawClient(made: Made, body: object): Socket {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
  socket.on('error', () => {});
  const text = JSON.stringify(body);
  socket.write(
    `POST ${CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${made.key}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  return socket;
}

test('a silent stream gets comments, which no client sees as an event', async () => {
  const made = await gateway.rollout();
  engine.failNext({ kind: 'stall', afterTokens: 2, ms: 2_800 });
  const answer = await send(made, ask('count to 5'));
  assert.match(answer.text, /\n\n: keep-alive\n\n/);
  assert.match(answer.text, /data: \[DONE\]\n\n$/);
  const events = answer.text.split('\n\n').filter((block) => block !== '');
  for (const block of events.filter((each) => !each.startsWith(':'))) assert.match(block, /^data: /);
});

test('first token and the times between chunks are recorded', async () => {
  const made = await gateway.rollout();
  engine.failNext({ kind: 'slow_first_token', ms: 150 }, { kind: 'stall', afterTokens: 3, ms: 400 });
  await send(made, ask('count to 6'));
  const call = await theCall(made);
  const { start, end } = call.time as { start: number; end: number };
  const first = call.firstToken as number;
  assert.ok(first - start >= 150_000 && first <= end, `${first - start} of ${end - start}`);
  const chunks = call.extra?.['chunks'] as { count: number; meanMs: number; p50Ms: number; p99Ms: number; maxMs: number };
  assert.ok(chunks.count >= 2 && chunks.maxMs > 0 && chunks.p50Ms <= chunks.p99Ms && chunks.p99Ms <= chunks.maxMs, JSON.stringify(chunks));
});

test('a harness that reads nothing counts as gone when its buffers are full, and its engine is stopped', async () => {
  const made = await gateway.rollout();
  engine.failNext(...Array.from({ length: 400 }, (_, i) => ({ kind: 'long_line' as const, afterTokens: i, bytes: 50_000 })));
  const socket = rawClient(made, ask('count to 500'));
  socket.pause();
  const call = await theCall(made);
  socket.destroy();
  assert.equal(call.error?.type, 'client_stalled');
  const seen = await engine.ended(() => true);
  assert.equal(seen.outcome, 'client_closed');
  assert.ok(seen.sentTokens < 400, `the engine went on to ${seen.sentTokens}`);
  const answer = (await gateway.eventsOf('node.appended', made.trace)).at(-1);
  assert.equal(answer?.data.partial, true);
});

test('a harness that leaves: the engine is stopped, or goes on to the end where that is set, and the record says so', async () => {
  for (const [model, outcome, error] of [
    ['toy', 'client_closed', 'cancelled'],
    ['toy-goes-on', 'complete', null],
  ] as const) {
    const made = await gateway.rollout();
    engine.clearRequests();
    engine.failNext({ kind: 'stall', afterTokens: 4, ms: 700 });
    const socket = rawClient(made, ask('count to 20', { model }));
    let seenText = '';
    socket.on('data', (piece: Buffer) => (seenText += piece.toString()));
    for (let tries = 0; seenText.split('"content"').length < 4 && tries < 3_000; tries++) await sleep(5);
    socket.destroy();
    const call = await theCall(made);
    assert.equal(call.error?.type ?? null, error, model);
    assert.equal((await engine.ended(() => true)).outcome, outcome);
    const answer = (await gateway.eventsOf('node.appended', made.trace)).at(-1);
    const ids = [...(answer?.data.tokens?.ids.typed() ?? [])];
    const [seen] = engine.requests();
    const whole = [...(seen?.promptIds ?? []), ...(seen?.choices[0]?.ids ?? [])];
    // the last pieces may have been under way when it left
    assert.deepEqual(ids, error === null ? whole : whole.slice(0, ids.length));
    assert.ok(ids.length > (seen?.promptIds?.length ?? 0));
    const said = [answer?.data.partial ?? null, call.extra?.['flags']];
    assert.deepEqual(said, error === null ? [null, ['harness_left']] : [true, ['usage_counted']]);
  }
});

test('an answer and an event beyond their limits are named, and recorded as broken', async () => {
  const whole = await gateway.rollout();
  const large = await send(whole, ask(`say: ${'many words '.repeat(8_000)}`, { stream: false }));
  assert.equal(large.status, 502, large.text.slice(0, 200));
  assert.match(large.text, /40000 bytes.*answer_too_large/);
  assert.equal((await theCall(whole)).error?.type, 'answer_too_large');

  const streamed = await gateway.rollout();
  engine.failNext({ kind: 'long_line', afterTokens: 3, bytes: 100_000 });
  const broken = await send(streamed, ask('count to 9')).then((a) => a.text, String);
  assert.doesNotMatch(broken, /\[DONE\]/);
  const call = await theCall(streamed);
  assert.equal(call.error?.type, 'sse_event_too_large');
  assert.match(call.error?.message ?? '', /60000 bytes/);
});

test('counts that the engine gets wrong are kept as it said them, and flagged', async () => {
  const made = await gateway.rollout();
  engine.failNext({ kind: 'wrong_usage', promptTokens: 1, completionTokens: 999 });
  await send(made, ask('1 + 1', { stream: false }));
  const call = await theCall(made);
  assert.deepEqual([call.usage?.promptTokens, call.usage?.completionTokens], [1, 999]);
  assert.deepEqual(call.extra?.['flags'], ['usage_mismatch']);
});

test('requests beyond the memory for them are refused with 429, and pass when there is room', async () => {
  const small = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url } }, limits: { inFlightBytes: 200_000 } });
  try {
    const made = await small.rollout();
    engine.failNext({ kind: 'slow_first_token', ms: 1_000 });
    const key = { authorization: `Bearer ${made.key}` };
    const held = small.post(CHAT, ask('1 + 1', { user: 'x'.repeat(60_000) }), key);
    for (let tries = 0; engine.openRequests() === 0 && tries < 3_000; tries++) await sleep(5);
    const refused = await small.post(CHAT, ask('1 + 2', { user: 'x'.repeat(60_000) }), key);
    assert.equal(refused.status, 429, refused.text);
    assert.match(refused.text, /overloaded/);
    assert.ok(refused.headers.get('retry-after') !== null);
    assert.equal((await held).status, 200);
    assert.equal((await small.post(CHAT, ask('1 + 2', { user: 'x'.repeat(60_000) }), key)).status, 200);
  } finally {
    await small.close();
  }
});
