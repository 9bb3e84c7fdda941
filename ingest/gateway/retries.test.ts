/** A request that repeats another one is answered by it; a request that only looks the same is a sample of its own. Against a real engine and log. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
const ask = (content: string, more: Record<string, unknown> = {}) => ({ model: 'toy', messages: [{ role: 'user', content }], ...more });

let engine: FakeEngine;
let gateway: TestGateway;
before(async () => {
  engine = await startFakeEngine();
  gateway = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url } } });
});
after(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => engine.clearRequests());

const send = (made: Made, body: unknown, headers: Record<string, string> = {}) =>
  gateway.post(CHAT, body, { authorization: `Bearer ${made.key}`, ...headers });
const keyed = (key: string) => ({ 'idempotency-key': key });
const retry = (count: number) => ({ 'x-stainless-retry-count': String(count) });
const callsOf = async (made: Made) => (await gateway.eventsOf('call.recorded', made.trace)).map((e) => e.data);
const generations = () => engine.requests().filter((r) => r.path === CHAT).length;
const textOf = (answer: { json: unknown }) => (answer.json as { choices: { message: { content: string } }[] }).choices[0]?.message.content;

test('requests with one Idempotency-Key are one call: joined while it runs, replayed when it is over', async () => {
  const made = await gateway.rollout();
  engine.failNext({ kind: 'slow_first_token', ms: 300 });
  const body = ask('Tell me something');
  const both = await Promise.all([send(made, body, keyed('k1')), send(made, body, keyed('k1'))]);
  const later = await send(made, body, keyed('k1'));
  assert.deepEqual([...both, later].map((a) => a.status), [200, 200, 200]); // prettier-ignore
  assert.equal(new Set([...both, later].map((a) => a.text)).size, 1);
  assert.deepEqual([...both, later].map((a) => a.headers.get('x-tapedeck-call')), ['0', '0', '0']); // prettier-ignore
  assert.equal(later.headers.get('idempotency-replayed'), 'true');
  assert.equal(generations(), 1);
  assert.equal((await callsOf(made)).length, 1);
});

test('a stream is replayed as a stream, with the same text and its end', async () => {
  const made = await gateway.rollout();
  const body = ask('count to 5', { stream: true, stream_options: { include_usage: true } });
  const first = await send(made, body, keyed('k2'));
  const again = await send(made, body, keyed('k2'));
  const said = (text: string): string => [...text.matchAll(/"content":"([^"]*)"/g)].map((m) => m[1]).join('');
  assert.equal(said(again.text), said(first.text));
  assert.match(again.text, /"finish_reason":"stop"/);
  assert.match(again.text, /data: \[DONE\]\n\n$/);
  assert.equal(generations(), 1);
});

test('the same key with another body, and a key of a wrong length, are refused by name', async () => {
  const made = await gateway.rollout();
  await send(made, ask('1 + 1'), keyed('k3'));
  const other = await send(made, ask('1 + 2'), keyed('k3'));
  assert.equal((other.json as { error: { code: string } }).error.code, 'idempotency_mismatch');
  assert.ok(other.status >= 400 && other.status < 500);
  assert.equal(other.headers.get('x-should-retry'), 'false');
  assert.equal((await send(made, ask('1 + 1'), keyed('k'.repeat(256)))).status, 400);
  assert.equal((await callsOf(made)).length, 1);
});

test('a key belongs to its trace', async () => {
  const [a, b] = [await gateway.rollout(), await gateway.rollout()];
  await Promise.all([a, b].map((made) => send(made, ask('2 + 2'), keyed('same'))));
  assert.equal(generations(), 2);
});

test('the retry header joins the call with the same body; without it, the same body is another sample', async () => {
  const made = await gateway.rollout();
  engine.failNext({ kind: 'slow_first_token', ms: 300 });
  const body = ask('Tell me more');
  const [first, joined] = await Promise.all([
    send(made, body, retry(0)),
    new Promise((resolve) => setTimeout(resolve, 50)).then(() => send(made, body, retry(1))),
  ]);
  assert.equal(joined.text, first.text);
  assert.equal(generations(), 1);
  await send(made, body, retry(0));
  assert.equal(generations(), 2);
  const nodes = await gateway.eventsOf('node.appended', made.trace);
  assert.deepEqual(nodes.map((n) => n.data.parent ?? null), [null, 0, 0]); // prettier-ignore
  assert.deepEqual(nodes.map((n) => n.data.forkReason ?? null), [null, null, 'resample']); // prettier-ignore
});

test('a retry of a call that failed is a call of its own, which says what it repeats', async () => {
  const made = await gateway.rollout();
  engine.failNext({ kind: 'status', status: 500 });
  const body = ask('3 + 3');
  assert.equal((await send(made, body)).status, 500);
  const again = await send(made, body, retry(1));
  assert.equal(textOf(again), '3 + 3 = 6');
  const calls = await callsOf(made);
  assert.deepEqual(calls.map((c) => [c.error?.type ?? null, c.retryOf ?? null]), [['upstream_failed', null], [null, 0]]); // prettier-ignore
  const replayed = await send(made, body, retry(2));
  assert.equal(replayed.headers.get('x-tapedeck-call'), '1');
  assert.equal(generations(), 2);
});

test('what came of a call is remembered for a time and within bytes only', async () => {
  const forgetful = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url } }, limits: { replayBytes: 0 } });
  try {
    const made = await forgetful.rollout();
    const again = () => forgetful.post(CHAT, ask('4 + 4'), { authorization: `Bearer ${made.key}`, ...keyed('k') });
    await again();
    await again();
    assert.equal(generations(), 2);
  } finally {
    await forgetful.close();
  }
});
