/** A client that the SDK points at the gateway, beside one that it wraps: the same conversation leaves the same nodes either way. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { createRecorder, wrapOpenAI, type Recorder, type Run } from '../../harness-sdk/index.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, type GatewayServer } from '../gateway/gateway-server.ts';
import { audit } from '../proof.ts';

let engine: FakeEngine;
/** The same engine once more: it samples the same things the first time it is asked. */
let twin: FakeEngine;
let gateway: GatewayServer;
let recorder: Recorder;
let run: Run;
before(async () => {
  [engine, twin] = await Promise.all([startFakeEngine({ seed: 3 }), startFakeEngine({ seed: 3 })]);
  gateway = await startGatewayServer({ main: { kind: 'vllm', url: engine.url } });
  recorder = createRecorder({ url: gateway.url });
  run = recorder.run({ kind: 'eval', name: 'both ways' });
});
after(async () => {
  await recorder?.close();
  await gateway?.stop();
  await engine?.close();
  await twin?.close();
});

async function converse(client: OpenAI): Promise<void> {
  const messages: ChatCompletionMessageParam[] = [{ role: 'system', content: 'Be exact.' }];
  for (const question of ['What is 12 + 30?', 'What is 5 + 6?', 'Tell me about "Ada".']) {
    messages.push({ role: 'user', content: question });
    const answer = await client.chat.completions.create({
      model: 'toy',
      messages,
      logprobs: true,
      ...({ return_token_ids: true } as object),
    });
    messages.push((answer.choices[0] as OpenAI.ChatCompletion.Choice).message);
  }
}

type NodeRow = {
  index: number;
  parent: number | null;
  role: string;
  message: string;
  sampled: boolean;
  token_ids: number[];
  mask: number[];
  logprobs: number[];
};

test('rollout.openai() is recorded by the gateway, node for node as a wrapped client is recorded here', async () => {
  let captured = '';
  let wrapped = '';
  await run.rollout({ env: 'sums', task: 'both' }, async (rollout) => {
    const client = await rollout.openai({ agent: { name: 'through the gateway', trainable: true } });
    assert.ok(client instanceof OpenAI);
    await converse(client);
    captured = rollout.id;
    await rollout.trace({ agent: 'judge' }, (trace) => void trace.message({ role: 'user', content: 'Is it right?' }));
    rollout.reward('correct', 1, 1, 'code');
  });
  await run.rollout({ env: 'sums', task: 'both' }, async (rollout) => {
    wrapped = rollout.id;
    await rollout.trace({ agent: { name: 'in process', trainable: true } }, () =>
      converse(wrapOpenAI(new OpenAI({ baseURL: `${twin.url}/v1`, apiKey: 'x' }))),
    );
  });
  await recorder.flush();
  const rollouts = await gateway.sql<{ rollout: string; ok: boolean; reward: number | null }>('SELECT rollout, ok, reward FROM rollouts');
  assert.deepEqual(new Map(rollouts.map(({ rollout, ok }) => [rollout, Boolean(ok)])), new Map([[captured, true], [wrapped, true]])); // prettier-ignore
  assert.equal(rollouts.find(({ rollout }) => rollout === captured)?.reward, 1);
  const agents = await gateway.sql<{ agent: string; nodes: number; ok: boolean }>('SELECT agent, nodes, ok FROM traces WHERE rollout = {r: String} ORDER BY agent', { r: captured }); // prettier-ignore
  assert.deepEqual(agents.map(({ agent, nodes }) => [agent, Number(nodes)]), [['judge', 1], ['through the gateway', 7]]); // prettier-ignore
  const nodesOf = (rollout: string, agent: string): Promise<NodeRow[]> =>
    gateway.sql<NodeRow>(
      'SELECT index, parent, role, message, sampled, token_ids, mask, logprobs FROM nodes WHERE trace IN (SELECT trace FROM traces WHERE rollout = {r: String} AND agent = {a: String}) ORDER BY index',
      { r: rollout, a: agent },
    );
  const there = await nodesOf(captured, 'through the gateway');
  const here = await nodesOf(wrapped, 'in process');
  assert.equal(there.length, 7);
  assert.deepEqual(here, there);
  assert.ok(there.some(({ token_ids }) => token_ids.length > 5));
  const { problems, ...report } = (await audit(gateway.url)) as unknown as { problems: string[]; mismatches: unknown[] };
  assert.deepEqual([problems, report.mismatches], [[], []]);
});

test('after the end of the rollout its keys are refused; errors of the gateway have their names', async () => {
  const rollout = run.rollout({ env: 'sums' });
  const key = await rollout.gateway({ agent: 'first', limits: { turns: 1 } });
  const other = await rollout.gateway({ agent: 'second' });
  assert.notEqual(key.trace, other.trace);
  const ask = (): Promise<unknown> =>
    new OpenAI({ baseURL: key.baseUrls.openai, apiKey: key.key, maxRetries: 0 }).chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'What is 1 + 1?' }] }); // prettier-ignore
  await ask();
  rollout.end({ ok: true });
  await rollout[Symbol.asyncDispose]();
  await assert.rejects(ask(), (error: unknown) => error instanceof OpenAI.APIError && (error.status ?? 0) >= 400 && error.status !== 500);
  await assert.rejects(rollout.gateway({ agent: 'late' }), { code: 'rollout_ended' });
  const away = createRecorder({ url: gateway.url, gateway: 'http://127.0.0.1:9' });
  await assert.rejects(away.rollout({}).gateway(), { code: 'log_unavailable' });
  await away.close();
});
