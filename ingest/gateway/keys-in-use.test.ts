/** Keys on their way: how they may come, what a wrong one gets, and that none is written anywhere. Against a real engine and log. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
const ask = (content: string, more: Record<string, unknown> = {}) => ({ model: 'toy', messages: [{ role: 'user', content }], ...more });
const bearer = (made: Made) => ({ authorization: `Bearer ${made.key}` });

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

const calls = (made: Made) => gateway.eventsOf('call.recorded', made.trace);

describe('keys', () => {
  test('as a bearer token, as x-api-key, and in the path', async () => {
    const made = await gateway.rollout();
    assert.equal((await gateway.post(CHAT, ask('a'), bearer(made))).status, 200);
    assert.equal((await gateway.post(CHAT, ask('b'), { 'x-api-key': made.key })).status, 200);
    assert.equal((await gateway.post(`/k/${made.key}${CHAT}`, ask('c'), { authorization: 'Bearer whatever' })).status, 200);
    assert.equal((await gateway.post(`/u/main/k/${made.key}${CHAT}`, ask('d'))).status, 200);
    assert.equal((await gateway.post(`/u/other/k/${made.key}${CHAT}`, ask('e'))).status, 502);
  });

  test('is written nowhere, however it came', async () => {
    const made = await gateway.rollout();
    await gateway.post(CHAT, ask('a', { stream: true }), bearer(made));
    await gateway.post(CHAT, ask('b'), { 'x-api-key': made.key, authorization: 'Basic eA==' });
    await gateway.post(`/k/${made.key}${CHAT}`, ask('c'));
    const { key } = (await gateway.post('/v1/runs/run-1/keys', {})).json as Made;
    await gateway.post(`/k/${key}${CHAT}`, ask('d'), { 'x-session-id': 's' });
    const all = (await gateway.events()).map((event) => JSON.stringify(event, (_k, v: unknown) => (typeof v === 'bigint' ? String(v) : v)));
    assert.equal((await calls(made)).length, 3);
    for (const secret of [made.key, key]) {
      assert.ok(all.every((text) => !text.includes(secret)));
      assert.ok(engine.requests().every(({ headers }) => !JSON.stringify(headers).includes(secret)));
    }
  });

  test('a wrong one is 401 in the shape of the dialect, and no body is needed for that', async () => {
    const chat = await gateway.post(CHAT, 'x'.repeat(1_000_000), { authorization: 'Bearer sk-wrong' });
    assert.equal(chat.status, 401);
    assert.equal((chat.json as { error: { type: string; code: string } }).error.code, 'unauthorized');
    const messages = await gateway.post('/v1/messages', {}, { 'x-api-key': 'nope' });
    assert.equal(messages.status, 401);
    assert.equal((messages.json as { type: string; error: { type: string } }).error.type, 'authentication_error');
    assert.equal(messages.headers.get('x-should-retry'), 'false');
    assert.equal(engine.requests().length, 0);
  });
});
