/** How often calls extend and in which fields re-sent messages drift, per model and harness, asked by the documented query; and where a captured trace gives way to its original. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { calls } from '../../store/columns/views/trace-views.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer } from './gateway-server.ts';

let engine: FakeEngine;
let gateway: GatewayServer;
before(async () => {
  engine = await startFakeEngine({ seed: 11 });
  gateway = await startGatewayServer({ vllm: vllmUpstream(engine) });
});
after(async () => {
  await gateway.stop();
  await engine.close();
});

type Message = { role: string; content: string | null; tool_calls?: { id: string }[]; tool_call_id?: string; reasoning?: string };
const TOOLS = [
  { type: 'function', function: { name: 'lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } } } } },
];

async function say(key: string, model: string, messages: readonly Message[], headers: Record<string, string> = {}): Promise<Message> {
  const tools = messages[0]?.content?.includes('Look up') === true ? { tools: TOOLS } : {};
  const { status, json } = await gateway.post('/v1/chat/completions', { model, messages, ...tools }, { authorization: `Bearer ${key}`, ...headers }); // prettier-ignore
  assert.equal(status, 200, JSON.stringify(json));
  return (json as { choices: { message: Message }[] }).choices[0]?.message as Message;
}

/** A harness that gives tool calls ids of its own. */
async function rewritesIds(key: string): Promise<void> {
  const asked: Message = { role: 'user', content: 'Look up "iron".' };
  const answer = await say(key, 'toy', [asked]);
  const own = answer.tool_calls?.map((call, i) => ({ ...call, id: `own-${i}` })) ?? [];
  await say(key, 'toy', [asked, { ...answer, tool_calls: own }, { role: 'tool', tool_call_id: 'own-0', content: 'a metal' }]);
}

/** Its template drops the reasoning of earlier turns. */
async function thinks(key: string, headers: Record<string, string> = {}): Promise<void> {
  const asked: Message = { role: 'user', content: '2 + 2' };
  const answer = await say(key, 'toy-thinking', [asked], headers);
  await say(key, 'toy-thinking', [asked, answer, { role: 'user', content: '3 + 3' }], headers);
}

test('extension and drift per model and harness: named by the key, or by the User-Agent of a session', async () => {
  const named = await gateway.rollout({ run: 'stats', runtime: { harness: 'tool-loop', version: '2' } });
  await rewritesIds(named.key);
  await thinks((await gateway.rollout({ run: 'stats', agent: { name: 'solver' } })).key);
  const { key } = (await gateway.post('/v1/runs/stats/keys', {})).json as { key: string };
  await thinks(key, { 'x-session-id': 's1', 'user-agent': 'claude-cli/2.0.1 (external, cli)' });
  await thinks(key, { 'x-session-id': 's2', 'user-agent': 'AsyncOpenAI/Python 3.57.0' });
  const other = (await gateway.post('/v1/runs/stats/keys', { runtime: { harness: 'given' } })).json as { key: string };
  await thinks(other.key, { 'x-session-id': 's3', 'user-agent': 'curl/8.0' });

  const rows = await gateway.sql<Record<string, unknown>>(calls.questions?.[0]?.sql ?? '');
  const forks = { model: 'toy-thinking', extension_rate: 0, later_calls: '1', drifted_calls: '0', drifted_fields: [] };
  assert.deepEqual(rows.map((row) => ({ ...row, later_calls: String(row['later_calls']), drifted_calls: String(row['drifted_calls']) })), [
    { model: 'toy', harness: 'tool-loop', extension_rate: 1, later_calls: '1', drifted_calls: '1', drifted_fields: ['tool_calls.id'] },
    { ...forks, harness: 'AsyncOpenAI/Python' },
    { ...forks, harness: 'claude-cli' },
    { ...forks, harness: 'given' },
    { ...forks, harness: 'solver' },
  ]); // prettier-ignore
  const bodies = await gateway.sql<{ trace: string; runtime: string }>("SELECT trace, JSONExtractRaw(data, 'runtime') AS runtime FROM trace_bodies WHERE type = 'trace.started' AND trace IN ('wire:s1', 'wire:s3') ORDER BY trace"); // prettier-ignore
  assert.deepEqual(
    bodies.map(({ trace, runtime }) => [trace, JSON.parse(runtime)]),
    [
      ['wire:s1', { harness: 'claude-cli', userAgent: 'claude-cli/2.0.1 (external, cli)' }],
      ['wire:s3', { harness: 'given', userAgent: 'curl/8.0' }],
    ],
  );
  const [client] = await gateway.sql<{ client: string }>("SELECT JSONExtractString(data, 'extra', 'client') AS client FROM call_bodies WHERE trace = 'wire:s2' LIMIT 1"); // prettier-ignore
  assert.equal(client?.client, 'AsyncOpenAI/Python 3.57.0');
});

test('a captured session is listed until its own record is there, then that one stands for both; by its id it is found all the same', async () => {
  const { key } = (await gateway.post('/v1/runs/mirrored/keys', {})).json as { key: string };
  await thinks(key, { 'x-session-id': 'twin' });
  await thinks(key, { 'x-session-id': 'alone' });
  const listed = async (): Promise<string[]> => {
    await gateway.sql('SELECT 1');
    const { items } = (await (await fetch(`${gateway.url}/api/v1/traces`)).json()) as { items: { trace_id: string }[] };
    return items.map((item) => item.trace_id).filter((id) => id.includes('twin') || id.includes('alone')).toSorted(); // prettier-ignore
  };
  assert.deepEqual(await listed(), ['wire:alone', 'wire:twin']);
  const event = (type: string, trace: string | undefined, data: object): object => ({
    v: 1,
    id: crypto.randomUUID(),
    type,
    run: 'uploaded',
    rollout: 'episode',
    trace,
    time: Date.now() * 1000,
    data,
  });
  const sent = await gateway.post('/v1/events', [event('rollout.started', undefined, {}), event('trace.started', 'twin', { agent: {} })]);
  assert.deepEqual(sent.json, { accepted: 2, duplicates: 0, rejected: [] });
  assert.deepEqual(await listed(), ['twin', 'wire:alone']);
  const found = await fetch(`${gateway.url}/api/v1/traces/wire:twin`);
  assert.equal(found.status, 200, await found.text());
});
