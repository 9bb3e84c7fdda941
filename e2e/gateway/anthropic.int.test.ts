/** The unmodified npm client of Anthropic through the gateway, in front of a chat engine: parallel tools in a stream, retries on 500 and on its own timeout, abort. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { nodesOf, provesIdentity } from './token-identity.ts';

type Call = { error_type: string | null; retry_of: number | null; dialect: string };

describe('the client of Anthropic', () => {
  let engine: FakeEngine;
  let gateway: GatewayServer;
  before(async () => {
    engine = await startFakeEngine({ seed: 41 });
    gateway = await startGatewayServer({ vllm: vllmUpstream(engine) });
  });
  after(async () => {
    await gateway.stop();
    await engine.close();
  });
  const clientOf = (made: MadeTrace, more: { maxRetries?: number; timeout?: number } = {}): Anthropic =>
    new Anthropic({ baseURL: made.baseUrls.anthropic, apiKey: made.key, maxRetries: 0, ...more });
  const callsOf = (made: MadeTrace): Promise<Call[]> =>
    gateway.sql<Call>('SELECT error_type, retry_of, dialect FROM calls WHERE trace = {trace:String} ORDER BY index', { trace: made.trace });
  const ask = (content: string) => ({ model: 'toy', max_tokens: 2_000, messages: [{ role: 'user' as const, content }] });
  const textOf = (message: { content: { type: string; text?: string }[] }): string => message.content.map((b) => b.text ?? '').join('');

  test('it tries again on 500, and the record says which call repeats which', async () => {
    const made = await gateway.rollout();
    engine.queueFault({ faults: [{ kind: 'status', status: 500 }], times: 2 });
    assert.equal(textOf(await clientOf(made, { maxRetries: 2 }).messages.create(ask('2 + 3'))), '2 + 3 = 5');
    const calls = await callsOf(made);
    assert.deepEqual(calls.map((c) => [c.error_type !== null, c.retry_of, c.dialect]), [[true, null, 'anthropic.messages'], [true, 0, 'anthropic.messages'], [false, 1, 'anthropic.messages']]); // prettier-ignore
    assert.deepEqual((await nodesOf(gateway, made.trace)).map((n) => n.parent), [null, 0]); // prettier-ignore
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
  });

  test('it gives up on a slow answer and tries again: one answer, one chain', async () => {
    const made = await gateway.rollout();
    engine.failNext({ kind: 'slow_first_token', ms: 4_000 });
    const answer = await clientOf(made, { maxRetries: 5, timeout: 1_500 }).messages.create(ask('4 + 3'));
    assert.equal(textOf(answer), '4 + 3 = 7');
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
    assert.deepEqual((await nodesOf(gateway, made.trace)).map((n) => n.parent), [null, 0]); // prettier-ignore
    const calls = await callsOf(made);
    assert.equal(calls.at(-1)?.error_type, null);
    assert.ok(calls.slice(0, -1).every((c) => c.error_type === 'cancelled'));
  });

  test('an aborted stream stops the engine and is a cancelled call with what had arrived', async () => {
    const made = await gateway.rollout();
    engine.setPace({ tokenMs: 20 });
    const stream = clientOf(made).messages.stream(ask('count to 400'));
    let pieces = 0;
    stream.on('text', () => {
      if (++pieces === 8) stream.abort();
    });
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    const seen = await engine.ended((r) => r.headers['x-session-id'] === made.trace);
    engine.setPace({ tokenMs: 0 });
    assert.equal(seen.outcome, 'client_closed');
    let calls: Call[] = [];
    for (let tries = 0; calls.length === 0 && tries < 600; tries++) {
      calls = await callsOf(made);
      await sleep(50);
    }
    assert.deepEqual(calls.map((c) => c.error_type), ['cancelled']); // prettier-ignore
    const answer = (await nodesOf(gateway, made.trace)).at(-1);
    assert.ok(Boolean(answer?.partial) && (answer?.text ?? '').startsWith('1 2 3'));
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 0);
  });

  test('an answer that breaks off is an error of the client, never a finished message', async () => {
    const made = await gateway.rollout();
    engine.queueFault({ faults: [{ kind: 'cut', afterTokens: 5, how: 'destroy' }], match: { includes: 'count to 50' } });
    await assert.rejects(clientOf(made).messages.stream(ask('count to 50')).finalMessage());
    engine.queueFault({
      faults: [{ kind: 'error_event', afterTokens: 3, message: 'the engine core died' }],
      match: { includes: 'count to 60' },
    });
    await assert.rejects(clientOf(made).messages.stream(ask('count to 60')).finalMessage(), /engine core died/);
    const [broken, failed] = await callsOf(made);
    assert.match(broken?.error_type ?? '', /^(upstream_unavailable|stream_truncated)$/);
    assert.equal(failed?.error_type, 'engine_error');
  });
});
