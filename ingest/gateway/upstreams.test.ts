/** Several upstreams behind one gateway: which one takes a call, what it is sent, and what a harness and the record get when it cannot. Real engines on real sockets. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { findFreePort } from '../../e2e/gateway/free-port.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
const ask = (content: string, more: Record<string, unknown> = {}) => ({ model: 'toy', messages: [{ role: 'user', content }], ...more });

let a: FakeEngine;
let b: FakeEngine;
let gateway: TestGateway;
let nowhere = 0;
before(async () => {
  a = await startFakeEngine({ seed: 1 });
  b = await startFakeEngine({ seed: 2, apiKey: 'upstream-key' });
  nowhere = await findFreePort();
  const health = { everyMs: 50, timeoutMs: 2_000 };
  const timeouts = { firstByteMs: 400, idleMs: 400, totalMs: 1_500 };
  gateway = await openGateway({
    upstreams: {
      a: { kind: 'vllm', url: a.url, models: ['toy'], health, headers: { 'x-extra': 'yes' }, sessionHeader: 'x-routing-key' },
      b: { kind: 'vllm', url: b.url, models: ['toy'], health, apiKeyEnv: 'KEY', tokenizerHash: 'tok', templateHash: 'tem', logprobsMode: 'processed' },
      dead: { kind: 'openai-compatible', url: `http://127.0.0.1:${nowhere}`, models: ['toy-dead', 'toy-either'] },
      alive: { kind: 'vllm', url: a.url, models: { 'toy-either': 'toy' } },
      slow: { kind: 'vllm', url: a.url, models: { 'toy-slow': 'toy' }, timeouts },
    },
  }); // prettier-ignore
});
after(async () => {
  await gateway.close();
  await Promise.all([a.close(), b.close()]);
});
beforeEach(() => [a, b].forEach((engine) => engine.clearRequests()));

const send = (made: Made, body: unknown, headers: Record<string, string> = {}, path = CHAT) =>
  gateway.post(path, body, { authorization: `Bearer ${made.key}`, ...headers });
const callsOf = async (made: Made) => (await gateway.eventsOf('call.recorded', made.trace)).map((e) => e.data);
const generations = (engine: FakeEngine) => engine.requests().filter((r) => r.path === CHAT);

test('a trace stays with one upstream; many traces use all of them; each is called in its own way', async () => {
  const made = await Promise.all(Array.from({ length: 24 }, () => gateway.rollout()));
  for (const each of made) for (const text of ['1 + 1', '2 + 2']) assert.equal((await send(each, ask(text))).status, 200);
  assert.equal(generations(a).length + generations(b).length, 48);
  assert.ok(generations(a).length > 0 && generations(b).length > 0);
  const [ofA, ofB] = [generations(a).map((r) => r.headers['x-routing-key']), generations(b).map((r) => r.headers['x-session-id'])];
  for (const { trace } of made) assert.ok([0, 2].includes(ofA.filter((id) => id === trace).length), 'it went to both');
  assert.equal(new Set([...ofA, ...ofB]).size, 24);
  assert.ok(generations(a).every((r) => r.headers['x-extra'] === 'yes' && r.headers.authorization === undefined));
  assert.ok(generations(b).every((r) => r.headers['x-extra'] === undefined && r.headers.authorization === 'Bearer upstream-key'));
  const onB = made.find(({ trace }) => ofB.includes(trace)) as Made;
  const [call] = await callsOf(onB);
  assert.deepEqual(
    [call?.tokenizerHash, call?.templateHash, call?.logprobsMode, call?.extra?.['upstream']],
    ['tok', 'tem', 'processed', 'b'],
  );
});

test('one whose health route fails is left out until it is back, then its traces return', async () => {
  const made = await Promise.all(Array.from({ length: 24 }, () => gateway.rollout()));
  for (const each of made) await send(each, ask('1 + 1'));
  const mine = made.filter(({ trace }) => generations(b).some((r) => r.headers['x-session-id'] === trace));
  assert.ok(mine.length > 0);
  await b.close();
  await sleep(200); // its health is asked for every 50 ms; before that a call finds out
  for (const each of mine) assert.equal((await send(each, ask('2 + 2'))).status, 200);
  const calls = await Promise.all(mine.map(callsOf));
  assert.ok(calls.every((c) => c.at(-1)?.extra?.['upstream'] === 'a'));
  b = await startFakeEngine({ seed: 2, apiKey: 'upstream-key', port: b.port });
  const [one] = mine as [Made];
  for (let tries = 0; generations(b).length === 0; tries++) {
    assert.ok(tries < 600, 'it does not come back');
    await sleep(50);
    await send(one, ask(`${tries} + 3`));
  }
});

test('one that cannot be connected: the next one answers, and the attempt is in the record; alone it is 502, and recorded', async () => {
  let tried = 0;
  for (let i = 0; i < 24; i++) {
    const made = await gateway.rollout();
    assert.equal((await send(made, ask(`${i} + 1`, { model: 'toy-either' }))).status, 200);
    const [call] = await callsOf(made);
    assert.equal(call?.extra?.['upstream'], 'alive');
    const attempts = (call?.extra?.['attempts'] ?? []) as { upstream: string; error: string; ms: number }[];
    if (attempts.length > 0) assert.deepEqual([attempts[0]?.upstream, attempts[0]?.error], ['dead', 'upstream_unavailable']);
    tried += attempts.length;
  }
  assert.ok(tried > 0);
  const made = await gateway.rollout();
  const refused = await send(made, ask('x', { model: 'toy-dead' }));
  assert.equal(refused.status, 502);
  assert.equal((refused.json as { error: { code: string } }).error.code, 'upstream_unavailable');
  const [call] = await callsOf(made);
  assert.deepEqual([call?.error?.type, call?.node ?? null, call?.extra?.['upstream']], ['upstream_unavailable', null, 'dead']);
});

test('an upstream is pinned by the path or by the rollout; an unknown one is named', async () => {
  const made = await gateway.rollout();
  for (const name of ['a', 'b', 'b', 'a']) assert.equal((await send(made, ask(`${name}!`), {}, `/u/${name}${CHAT}`)).status, 200);
  assert.deepEqual((await callsOf(made)).map((c) => c.extra?.['upstream']), ['a', 'b', 'b', 'a']); // prettier-ignore
  const pinned = await gateway.rollout({ upstream: 'b' });
  for (let i = 0; i < 3; i++) await send(pinned, ask(`${i}`));
  assert.deepEqual((await callsOf(pinned)).map((c) => c.extra?.['upstream']), ['b', 'b', 'b']); // prettier-ignore
  const unknown = await send(made, ask('x'), {}, `/u/c${CHAT}`);
  assert.match(unknown.text, /no upstream is called c; there are: a, b, dead, alive, slow/);
});

for (const [what, fault, stream, status] of [
  ['no first byte in time', { kind: 'slow_first_token', ms: 30_000 }, false, 504],
  ['a stream that falls silent', { kind: 'stall', afterTokens: 3 }, true, 200],
  ['a stream that takes too long in all', null, true, 200],
] as const) {
  test(`${what}: upstream_timeout, recorded with what came, never a finished answer`, async () => {
    const made = await gateway.rollout();
    if (fault !== null) a.queueFault({ faults: [fault], match: { includes: 'count to 300' } });
    else a.setPace({ tokenMs: 100 });
    try {
      const answer = await send(made, ask('count to 300', { model: 'toy-slow', stream }));
      assert.equal(answer.status, status);
      assert.match(answer.text, /upstream_timeout/);
      assert.doesNotMatch(answer.text, /\[DONE\]|"finish_reason":"stop"/);
    } catch (error) {
      // the broken stream may reach the client as a broken connection
      assert.ok(stream, String(error));
    } finally {
      a.setPace({ tokenMs: 0 });
    }
    let calls: Awaited<ReturnType<typeof callsOf>> = [];
    for (let tries = 0; calls.length === 0 && tries < 600; tries++) {
      calls = await callsOf(made);
      await sleep(20);
    }
    assert.deepEqual(calls.map((c) => c.error?.type), ['upstream_timeout']); // prettier-ignore
    const answerNode = (await gateway.eventsOf('node.appended', made.trace)).find((n) => n.data.sampled);
    assert.equal(answerNode?.data.partial ?? null, stream ? true : null);
  });
}
