/** What may not happen whatever dies: a client that saw "done" and a log that does not have it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { seededRandom } from '../../base/random.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { audit } from '../proof.ts';
import { temporaryFolder } from '../server.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { provesDone, streamed, type Done } from './told-done.ts';
import { nodesOf, pathIds, provesIdentity } from './token-identity.ts';

const KILLS = Number(process.env['TAPEDECK_GATEWAY_KILLS'] ?? 4);
const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);

describe(`gateway chaos, seed ${SEED}`, () => {
  let engine: FakeEngine;
  let gateway: GatewayServer;
  const random = seededRandom(SEED);
  before(async () => {
    engine = await startFakeEngine({ seed: SEED, pace: { tokenMs: 4 } });
    gateway = await startGatewayServer({ vllm: vllmUpstream(engine) }, { TAPEDECK_GATEWAY_STALL_MS: '2000' });
  });
  after(async () => {
    await gateway.stop();
    await engine.close();
  });
  test('killed in the middle of a stream: the client sees an error; the calls before are there, and the trace goes on', async () => {
    const made = await gateway.rollout();
    const first = await streamed(made, '1 + 1');
    const broken = streamed(made, 'count to 2000');
    broken.catch(() => {});
    for (let tries = 0; (engine.requests().at(-1)?.sentTokens ?? 0) < 20 && tries < 500; tries++) await sleep(10);
    await gateway.killAndRestart();
    await assert.rejects(broken);
    await provesDone(gateway, [first]);
    const again = await streamed(made, '2 + 2');
    await provesDone(gateway, [first, again]);
    const nodes = await nodesOf(gateway, made.trace);
    assert.deepEqual(nodes.map((n) => n.text), ['1 + 1', '1 + 1 = 2', '2 + 2', '2 + 2 = 4']); // prettier-ignore
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 2);
  });

  test('killed when the call is durable and the end is not told: the client sees an error, the call is there, and its retry is another sample', async () => {
    const made = await gateway.rollout();
    await gateway.killAndRestart({ TAPEDECK_CRASH_POINT: 'after-append:1' });
    await assert.rejects(streamed(made, '3 + 3'));
    await gateway.killAndRestart();
    await provesDone(gateway, [{ trace: made.trace, call: 0, text: '3 + 3 = 6' }]);
    const again = await streamed(made, '3 + 3', { 'x-stainless-retry-count': '1' });
    await provesDone(gateway, [again]);
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 2);
    assert.deepEqual((await nodesOf(gateway, made.trace)).map((n) => [n.text, n.parent]), [['3 + 3', null], ['3 + 3 = 6', 0], ['3 + 3 = 6', 0]]); // prettier-ignore
  });

  test(`killed ${KILLS} times under load: whatever a client saw the end of is recorded, exactly`, async () => {
    const done: Done[] = [];
    const stop = new AbortController();
    let failures = 0;
    const harness = async (n: number): Promise<void> => {
      let made: MadeTrace | null = null;
      for (let turn = 0; !stop.signal.aborted; turn++) {
        try {
          if (made === null || turn % 5 === 0) made = await gateway.rollout();
          done.push(await streamed(made, `${n} + ${turn}`));
        } catch {
          failures++;
          await sleep(50);
        }
      }
    };
    const harnesses = Array.from({ length: 8 }, (_, n) => harness(n));
    for (let kill = 0; kill < KILLS; kill++) {
      const from = done.length;
      for (let tries = 0; done.length < from + 10 && tries < 600; tries++) await sleep(50);
      await sleep(random.next() * 300);
      await gateway.killAndRestart();
    }
    const from = done.length;
    for (let tries = 0; done.length < from + 10 && tries < 600; tries++) await sleep(50);
    stop.abort();
    await Promise.all(harnesses);
    assert.ok(done.length >= KILLS * 10, `${done.length} answers, ${failures} failures`);
    await provesDone(gateway, done);
    const traces = [...new Set(done.map((d) => d.trace))];
    for (const trace of traces.slice(-10)) {
      const nodes = await nodesOf(gateway, trace);
      const given = engine.requests().filter((r) => r.headers['x-session-id'] === trace);
      for (const node of nodes.filter((n) => Boolean(n.sampled) && n.tokens !== null)) {
        const path = pathIds(nodes, node);
        assert.ok(given.some((r) => isStartOf(path, [...(r.promptIds ?? []), ...(r.choices[0]?.ids ?? [])])), `node ${node.index} of ${trace}`); // prettier-ignore
      }
    }
    assert.deepEqual((await audit(gateway.url)).problems, []);
  });

  test('a client that never reads: its engine is held back, it counts as gone, and others are served meanwhile', async () => {
    const made = await gateway.rollout();
    engine.queueFault({
      faults: [
        { kind: 'long_line', afterTokens: 1, bytes: 8_000_000 },
        { kind: 'long_line', afterTokens: 2, bytes: 8_000_000 },
      ],
      match: { includes: 'count to 3000' },
    });
    const body = JSON.stringify({ model: 'toy', stream: true, messages: [{ role: 'user', content: 'count to 3000' }] });
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${made.key}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    socket.pause();
    const others = await Promise.all(Array.from({ length: 5 }, async (_, i) => streamed(await gateway.rollout(), `${i} + 1`)));
    await provesDone(gateway, others);
    const seen = await engine.ended((r) => r.headers['x-session-id'] === made.trace);
    socket.destroy();
    assert.equal(seen.outcome, 'client_closed');
    assert.ok(seen.sentTokens < (seen.choices[0]?.ids.length ?? 0));
    type Row = { error_type: string | null };
    let rows: Row[] = [];
    for (let tries = 0; rows.length === 0 && tries < 100; tries++) {
      rows = await gateway.sql<Row>('SELECT error_type FROM calls WHERE trace = {trace:String}', { trace: made.trace });
      await sleep(50);
    }
    assert.notEqual(rows[0]?.error_type ?? null, null);
  });

  test('300 streams at once: all are answered and recorded to the token', async () => {
    const made = await Promise.all(Array.from({ length: 12 }, () => gateway.rollout()));
    const from = engine.requests().length;
    const done = await Promise.all(
      Array.from({ length: 300 }, (_, i) => streamed(made[i % made.length] as MadeTrace, `count to ${5 + (i % 20)}`)),
    );
    assert.equal(new Set(done.map((d) => `${d.trace}#${d.call}`)).size, 300);
    await provesDone(gateway, done);
    const requests = engine.requests(from);
    let proved = 0;
    for (const { trace } of made) proved += await provesIdentity(gateway, requests, trace);
    assert.equal(proved, 300);
  });
});

const folder = temporaryFolder('gateway-disk');
const data = join(folder.path, 'data');
/** The log alone is on the small disk: a store that is killed while it has no room is another matter. */
const small = join(data, 'log');

function mountSmall(): string | false {
  mkdirSync(small, { recursive: true });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=192m', 'tmpfs', small], { stdio: 'pipe' });
    return false;
  } catch {
    return 'a small file system cannot be mounted here (needs root)';
  }
}

const skip = mountSmall();

test('a full disk: no stream ends well that is not recorded; with room again, calls go on', { skip }, async () => {
  const engine = await startFakeEngine();
  const gateway = await startGatewayServer({ vllm: vllmUpstream(engine) }, { TAPEDECK_DATA: data });
  const ballast = join(small, 'ballast');
  let ended = 0;
  const ask = { model: 'toy', messages: [{ role: 'user' as const, content: 'count to 500' }] };
  /** Calls until one is not answered to its end. */
  const untilRefused = async (client: OpenAI): Promise<void> => {
    for (let i = 0; i < 100; i++) {
      let told = false;
      try {
        for await (const chunk of await client.chat.completions.create({ ...ask, stream: true }, { signal: AbortSignal.timeout(10_000) })) {
          told ||= chunk.choices[0]?.finish_reason != null;
        }
      } catch {
        assert.ok(!told, 'the end was told before it was stored');
        return;
      }
      if (!told) return; // the client ends an aborted stream without a word
      ended++;
    }
    assert.fail('the disk never filled up');
  };
  try {
    const made = await gateway.rollout();
    const client = new OpenAI({ baseURL: made.baseUrls.openai, apiKey: made.key, maxRetries: 0 });
    fillUp(ballast);
    await untilRefused(client);
    rmSync(ballast);
    let recovered = false;
    for (let i = 0; i < 100 && !recovered; i++) {
      try {
        await client.chat.completions.create({ ...ask, messages: [{ role: 'user', content: '1 + 1' }] });
        recovered = true;
      } catch {
        await sleep(200);
      }
    }
    assert.ok(recovered, 'it does not recover');
    // and now without a second chance: what is only in memory is lost
    fillUp(ballast);
    await untilRefused(client);
    await gateway.server().kill('tree');
    rmSync(ballast);
    await gateway.killAndRestart();
    const [row] = await gateway.sql<{ good: number }>('SELECT toUInt32(countIf(error_type IS NULL)) AS good FROM calls WHERE trace = {trace:String}', { trace: made.trace }); // prettier-ignore
    // besides those that ended well: the one after the disk had room, and perhaps the first refused one, stored late
    const more = (row?.good ?? 0) - ended;
    assert.ok(more >= 1 && more <= 2, `${ended} ended well, ${row?.good} are recorded`);
  } finally {
    await gateway.stop();
    await engine.close();
    execFileSync('umount', ['-l', small]);
    folder.remove();
  }
});

/** Until nothing more goes in. */
function fillUp(file: string): void {
  const out = openSync(file, 'w');
  for (const size of [1 << 20, 1 << 12]) {
    const piece = Buffer.alloc(size);
    try {
      for (;;) writeSync(out, piece);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
  closeSync(out);
}

function isStartOf(start: readonly number[], whole: readonly number[]): boolean {
  return start.length <= whole.length && start.every((id, i) => id === whole[i]);
}
