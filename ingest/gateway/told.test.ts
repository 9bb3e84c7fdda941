/** The record of a call holds the very bytes that the harness got: bodies, streams, refusals, broken streams, translated answers. */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, before, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { readPieces } from '../../events/answer-pieces.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

type Got = { readonly status: number; readonly headers: Record<string, unknown>; readonly body: Buffer; readonly isBroken: boolean };

let engine: FakeEngine;
let gateway: TestGateway;

before(async () => {
  engine = await startFakeEngine({ seed: 3 });
  gateway = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url } } });
});
after(async () => {
  await gateway.close();
  await engine.close();
});

function send(path: string, body: unknown, key: string, leaveAfter = Infinity): Promise<Got> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
    const sent = httpRequest(gateway.url + path, { method: 'POST', headers }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      const finish = (isBroken: boolean): void =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks), isBroken });
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > leaveAfter) sent.destroy();
      });
      response.on('end', () => finish(false));
      response.on('error', () => finish(true));
    });
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

async function toldOf(made: Made, index = 0) {
  for (let i = 0; i < 3000; i++) {
    const call = (await gateway.eventsOf('call.recorded', made.trace))[index];
    if (call !== undefined) {
      const { told } = call.data;
      assert.ok(told?.pieces);
      const pieces = readPieces(told.pieces.bytes);
      return { ...told, pieces, body: Buffer.concat(pieces.map(({ bytes }) => bytes)), time: call.data.time };
    }
    await new Promise((wake) => setTimeout(wake, 10));
  }
  throw new Error('the call was not recorded');
}

const chat = (content: string, more: object = {}) => ({ model: 'toy', messages: [{ role: 'user', content }], ...more });
const claude = (content: string, more: object = {}) => ({ ...chat(content, more), max_tokens: 100 });
const [CHAT, MESSAGES, RESPONSES] = ['/v1/chat/completions', '/v1/messages', '/v1/responses'];
const OF_CONNECTION = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length']);

for (const [what, path, body, fault, ending] of [
  ['a body', CHAT, chat('2 + 3'), null, 'complete'],
  ['a stream', CHAT, chat('count to 30', { stream: true }), null, 'complete'],
  ['a stream with CRLF and comments', CHAT, chat('count to 9', { stream: true }), { kind: 'crlf' }, 'complete'],
  ['a translated body', MESSAGES, claude('2 + 3'), null, 'complete'],
  ['a translated stream', MESSAGES, claude('count to 30', { stream: true }), null, 'complete'],
  ['a stream of responses', RESPONSES, { model: 'toy', input: 'count to 9', stream: true }, null, 'complete'],
  ['a refusal of the engine', CHAT, chat('2 + 3'), { kind: 'status', status: 429, message: 'slow down', retryAfter: '7' }, 'complete'],
  ['the page of a proxy', CHAT, chat('2 + 3'), { kind: 'status', status: 502, html: true }, 'complete'],
  ['a translated refusal', MESSAGES, claude('2 + 3'), { kind: 'status', status: 500, message: 'down' }, 'complete'],
  ['what cannot be translated', MESSAGES, { ...claude('2 + 3'), mcp_servers: [{ name: 'x' }] }, null, 'complete'],
  ['a stream that breaks', CHAT, chat('count to 30', { stream: true }), { kind: 'cut', afterTokens: 5, how: 'destroy' }, 'broken'],
  [
    'an error in a stream',
    CHAT,
    chat('count to 30', { stream: true }),
    { kind: 'error_event', afterTokens: 5, message: 'dead' },
    'complete',
  ],
  ['a model that says nothing', CHAT, chat('2 + 3'), { kind: 'empty_answer' }, 'complete'],
] as const) {
  test(`${what}: the bytes in the record are the bytes that were sent`, async () => {
    const made = await gateway.rollout();
    if (fault !== null) engine.failNext(fault as Parameters<FakeEngine['failNext']>[0]);
    const got = await send(path, body, made.key);
    const told = await toldOf(made);
    assert.equal(told.status, got.status);
    assert.equal(told.ending, ending);
    if (got.isBroken) assert.equal(told.body.subarray(0, got.body.length).toString(), got.body.toString());
    else assert.equal(told.body.toString(), got.body.toString());
    assert.equal(got.isBroken, ending === 'broken');
    for (const [name, value] of Object.entries(got.headers)) {
      if (!OF_CONNECTION.has(name)) assert.deepEqual(told.headers?.[name], value, name);
    }
  });
}

test('the limit that was reached', async () => {
  const made = await gateway.rollout({ limits: { turns: 1 } });
  await send(CHAT, chat('2 + 3'), made.key);
  const got = await send(CHAT, chat('2 + 3'), made.key);
  const told = await toldOf(made, 1);
  assert.deepEqual([told.status, told.body.toString()], [400, got.body.toString()]);
});

test('a harness that leaves: what had come for it, with its times', async () => {
  const made = await gateway.rollout();
  engine.setPace({ tokenMs: 5 });
  const got = await send(CHAT, chat('count to 400', { stream: true }), made.key, 1500);
  const told = await toldOf(made);
  engine.setPace({ tokenMs: 0 });
  assert.equal(told.ending, 'left');
  assert.equal(told.body.subarray(0, got.body.length).toString(), got.body.toString());
  const times = told.pieces.map(({ atMicros }) => atMicros);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  assert.ok((times.at(-1) ?? Infinity) <= (told.time?.end ?? 0) - (told.time?.start ?? 0));
  assert.ok((times.at(-1) ?? 0) - (times[0] ?? 0) > 5_000);
});
