/** Memory while very many streams are open, and while nobody reads what is sent: bounded by what is under way, never by what an engine could still say. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { provesIdentity } from './token-identity.ts';

const MIB = 1024 * 1024;
const STREAMS = Number(process.env['TAPEDECK_GATEWAY_STREAMS'] ?? 2_000);
const skip = process.platform === 'linux' ? false : 'the memory of a process is read from /proc';

let engine: FakeEngine;
let gateway: GatewayServer;
before(async () => {
  if (skip !== false) return;
  engine = await startFakeEngine();
  gateway = await startGatewayServer({ vllm: vllmUpstream(engine) }, { TAPEDECK_GATEWAY_STALL_MS: '20000' });
});
after(async () => {
  await gateway?.stop();
  await engine?.close();
});

function residentBytes(): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.server().pid}/status`, 'utf8'))?.[1]) * 1024;
}

/** Watches the memory of the server until the work is done; answers its largest growth. */
async function growthDuring(work: () => Promise<void>): Promise<number> {
  const start = residentBytes();
  let largest = start;
  let isOver = false;
  const watch = async (): Promise<void> => {
    for (; !isOver; await sleep(50)) largest = Math.max(largest, residentBytes());
  };
  const watching = watch();
  try {
    await work();
  } finally {
    isOver = true;
    await watching;
  }
  return largest - start;
}

const bodyOf = (content: string): string => JSON.stringify({ model: 'toy', stream: true, messages: [{ role: 'user', content }] });

/** Resolves with the text of the stream when it ended well. */
function stream(agent: Agent, key: string, content: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const call = request(`${gateway.url}/v1/chat/completions`, { agent, method: 'POST', headers }, (answer) => {
    const parts: string[] = [];
    answer.setEncoding('utf8');
    answer.on('data', (part: string) => parts.push(part));
    answer.on('end', () => (answer.statusCode === 200 ? resolve(parts.join('')) : reject(new Error(parts.join('')))));
    answer.on('error', reject);
  });
  call.on('error', reject);
  call.end(bodyOf(content));
  return promise;
}

test(`${STREAMS} streams open at once: all end well and are recorded to the token, in bounded memory`, { skip }, async () => {
  // no connection is used twice: one that the server lets go of while it is idle would break a call
  const agent = new Agent({ keepAlive: false, maxSockets: Infinity });
  const made: MadeTrace[] = [];
  for (let i = 0; i < 40; i++) made.push(await gateway.rollout());
  const keyOf = (i: number): string => (made[i % made.length] as MadeTrace).key;
  // code is compiled and buffers are made before anything is measured
  await Promise.all(Array.from({ length: 200 }, (_, i) => stream(agent, keyOf(i), `count to ${1 + (i % 30)}`)));
  const from = engine.requests().length;
  engine.setPace({ tokenMs: 1_000 });
  let most = 0;
  const grown = await growthDuring(async () => {
    const running = Promise.all(Array.from({ length: STREAMS }, (_, i) => stream(agent, keyOf(i), `count to ${9 + (i % 3)}`)));
    const watch = setInterval(() => (most = Math.max(most, engine.openRequests())), 50);
    const texts = await running.finally(() => {
      clearInterval(watch);
      engine.setPace({ tokenMs: 0 });
    });
    assert.ok(texts.every((text) => text.endsWith('data: [DONE]\n\n')));
  });
  agent.destroy();
  assert.equal(most, STREAMS, 'all are open at once');
  assert.ok(grown < STREAMS * 200 * 1024 + 100 * MIB, `${Math.round(grown / MIB)} MiB more for ${STREAMS} streams`);
  const requests = engine.requests(from);
  let proved = 0;
  for (const { trace } of made.slice(0, 8)) proved += await provesIdentity(gateway, engine.requests(), trace);
  assert.equal(proved, engine.requests().filter((r) => made.slice(0, 8).some(({ trace }) => r.headers['x-session-id'] === trace)).length);
  assert.equal(requests.length, STREAMS);
  const [row] = await gateway.sql<{ calls: number; bad: number }>('SELECT toUInt32(count()) AS calls, toUInt32(countIf(error_type IS NOT NULL)) AS bad FROM calls'); // prettier-ignore
  assert.deepEqual(row, { calls: STREAMS + 200, bad: 0 });
});

test(
  '40 harnesses that never read 40 MB each: their engines are held back, memory stays bounded, others are served',
  { skip },
  async () => {
    const made = await gateway.rollout();
    const faults = Array.from({ length: 40 }, (_, i) => ({ kind: 'long_line' as const, afterTokens: i, bytes: MIB }));
    engine.queueFault({ faults, match: { includes: 'count to 400' }, times: 40 });
    const sockets: Socket[] = [];
    const before = engine.requests().length;
    const gaveUp = (): ReturnType<FakeEngine['requests']> => engine.requests(before).filter((r) => r.outcome === 'client_closed');
    const grown = await growthDuring(async () => {
      for (let i = 0; i < 40; i++) {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
        socket.on('error', () => {});
        const body = bodyOf('count to 400');
        socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${made.key}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`); // prettier-ignore
        socket.pause();
        sockets.push(socket);
      }
      const agent = new Agent({ keepAlive: false });
      const other = await gateway.rollout();
      for (let i = 0; i < 20; i++) assert.match(await stream(agent, other.key, `${i} + 1`), /\[DONE\]/);
      agent.destroy();
      // until the gateway has given up on all of them
      for (let tries = 0; gaveUp().length < 40 && tries < 1_200; tries++) await sleep(100);
    });
    for (const socket of sockets) socket.destroy();
    const stalled = gaveUp();
    assert.equal(stalled.length, 40);
    assert.ok(
      stalled.every((r) => r.sentTokens < 40),
      `tokens sent: ${stalled.map((r) => r.sentTokens).join(' ')}`,
    );
    assert.ok(grown < 720 * MIB, `${Math.round(grown / MIB)} MiB more, of 1600 that could have been sent`);
    type Row = { error_type: string };
    let rows: Row[] = [];
    for (let tries = 0; rows.length < 40 && tries < 300; tries++) {
      rows = await gateway.sql<Row>("SELECT error_type FROM calls WHERE trace = {trace:String} AND error_type = 'client_stalled'", { trace: made.trace }); // prettier-ignore
      await sleep(100);
    }
    assert.equal(rows.length, 40);
  },
);
