import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, describe, test } from 'node:test';
import { systemClock, type Clock } from '../../../base/clock.ts';
import { createPieceWriter } from '../../../events/answer-pieces.ts';
import { PackedArray } from '../../../events/packed-array.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { createSession } from '../session/session.ts';
import { tapeOf } from '../tape/tape.ts';
import type { Timing } from './play.ts';
import { startReplayServer, type ReplayServer } from './replay-server.ts';

type Told = {
  readonly pieces: readonly (readonly [atMicros: number, text: string])[];
  readonly ending?: string;
  readonly headers?: Record<string, string>;
  readonly status?: number;
};
type Got = { readonly status: number; readonly headers: Record<string, unknown>; readonly body: string; readonly isBroken: boolean };

const servers: ReplayServer[] = [];
after(() => Promise.all(servers.map((server) => server.close())));

async function serve(
  calls: readonly (Told & { readonly content: string; readonly trace?: string })[],
  timing: Timing = { speed: null, holdMs: 50 },
  clock: Clock = systemClock,
) {
  const base = { v: 1, project: 'default', run: 'run', rollout: 'r', time: 1 };
  const events: object[] = calls.map(
    ({ content, trace = 't', pieces, ending = 'complete', headers = { 'content-type': 'application/json' }, status = 200 }, index) => {
      const writer = createPieceWriter({ maxBytes: 1e6 });
      for (const [at, text] of pieces) writer.add(Buffer.from(text), at);
      const told = { status, headers, pieces: PackedArray.of(writer.take()), ending };
      const data = { index, dialect: 'openai.chat', model: 'm', request: { model: 'm', messages: [{ role: 'user', content }] }, told };
      return { ...base, id: `c${index}`, trace, type: 'call.recorded', data };
    },
  );
  events.push({ ...base, id: 'e', type: 'rollout.ended', data: { ok: true } });
  const tape = tapeOf(events as TapedeckEvent[], { partial: false });
  const session = createSession(tape, { policy: 'forbid-network', normalisers: [], liveTools: false, fork: null });
  const server = await startReplayServer({ session, clock, timing, live: null, onFault: (error) => assert.fail(String(error)) });
  servers.push(server);
  return { server, session };
}

function send(url: string, path: string, body: string | null, method = 'POST'): Promise<Got> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url + path, { method }, (response) => {
      let text = '';
      const finish = (isBroken: boolean): void =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text, isBroken });
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => finish(false));
      response.on('error', () => finish(true));
    });
    sent.on('error', reject);
    sent.end(body ?? undefined);
  });
}

const chat = (content: string): string => JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] });
const SSE = { 'content-type': 'text/event-stream; charset=utf-8', 'transfer-encoding': 'chunked', 'x-request-id': 'req-1' };

describe('answers', () => {
  test('a body with its length and headers, a stream in its pieces; headers of the old connection stay behind', async () => {
    const { server } = await serve([
      {
        content: 'a',
        pieces: [[5, '{"x": 1}']],
        headers: { 'content-type': 'application/json', connection: 'close', 'retry-after': '7' },
        status: 429,
      },
      { content: 'b', pieces: [[5, 'data: 1\n\n'], [9, 'data: [DONE]\n\n']], headers: SSE }, // prettier-ignore
    ]);
    const body = await send(server.url, '/v1/chat/completions', chat('a'));
    assert.deepEqual([body.status, body.body, body.headers['content-length'], body.headers['retry-after']], [429, '{"x": 1}', '8', '7']);
    assert.deepEqual([body.headers['x-tapedeck-replay'], body.headers['x-tapedeck-call']], ['match', '0']);
    const stream = await send(server.url, '/k/any-key/v1/chat/completions?beta=true', chat('b'));
    assert.deepEqual(
      [stream.body, stream.headers['x-request-id'], stream.headers['content-length']],
      ['data: 1\n\ndata: [DONE]\n\n', 'req-1', undefined],
    );
  });

  test('a broken stream breaks behind its last byte; one that was left is held open, and then cut', async () => {
    const { server, session } = await serve([
      { content: 'a', pieces: [[5, 'data: 1\n\n']], headers: SSE, ending: 'broken' },
      { content: 'b', pieces: [[5, 'data: 2\n\n']], headers: SSE, ending: 'left' },
    ]);
    const broken = await send(server.url, '/v1/chat/completions', chat('a'));
    assert.deepEqual([broken.body, broken.isBroken], ['data: 1\n\n', true]);
    const left = await send(server.url, '/v1/chat/completions', chat('b'));
    assert.deepEqual([left.body, left.isBroken], ['data: 2\n\n', true]);
    assert.match(session.report().notes[0] ?? '', /call 1 of trace t: the harness left this answer/);
  });

  test('recorded times are waited for, scaled', async () => {
    const waits: number[] = [];
    let now = 0;
    const clock: Clock = {
      nowMicros: () => 0,
      monotonicMs: () => now,
      sleep: async (ms) => {
        waits.push(ms);
        now += ms;
      },
    };
    const pieces = [[200_000, 'data: 1\n\n'], [300_000, 'data: 2\n\n'], [300_000, 'data: 3\n\n']] as const; // prettier-ignore
    const { server } = await serve([{ content: 'a', pieces, headers: SSE }], { speed: 2, holdMs: 50 }, clock);
    assert.equal((await send(server.url, '/v1/chat/completions', chat('a'))).body, 'data: 1\n\ndata: 2\n\ndata: 3\n\n');
    assert.deepEqual(waits, [100, 50]);
  });
});

describe('requests', () => {
  test('a trace in the path; models; what is not recorded, not there, or no JSON', async () => {
    const { server } = await serve([
      { content: 'a', trace: 'one', pieces: [[1, '{"from":"one"}']] },
      { content: 'a', trace: 'two/x', pieces: [[1, '{"from":"two"}']] },
    ]);
    const ask = (path: string, body: string | null = chat('a'), method = 'POST') => send(server.url, path, body, method);
    assert.equal((await ask('/t/two%2Fx/v1/chat/completions')).body, '{"from":"two"}');
    assert.match((await ask('/t/three/v1/chat/completions')).body, /no trace three; it has one, two\/x/);
    const models = JSON.parse((await ask('/v1/models', null, 'GET')).body) as { data: { id: string }[] };
    assert.deepEqual(models.data.map(({ id }) => id), ['m']); // prettier-ignore
    for (const [path, body, status, code] of [
      ['/v1/messages/count_tokens', '{}', 404, 'not_found'],
      ['/v1/nothing', '{}', 404, 'not_found'],
      ['/v1/chat/completions', '{"a":', 400, 'invalid_json'],
      ['/v1/chat/completions', '[1]', 422, 'wrong_type'],
      ['/v1/chat/completions', '{"a":1,"a":2}', 400, 'duplicate_key'],
      ['/v1/chat/completions', chat('other'), 409, 'replay_diverged'],
    ] as const) {
      const answer = await ask(path, body);
      assert.equal(answer.status, status, `${path} ${body}: ${answer.body}`);
      assert.match(answer.body, new RegExp(code));
      assert.equal(answer.headers['x-should-retry'], 'false');
    }
    const claude = JSON.parse((await ask('/v1/messages', chat('a'))).body) as { type: string; error: { message: string } };
    assert.deepEqual([claude.type, /^replay_diverged: .*dialect/.test(claude.error.message)], ['error', true]);
  });

  test('a port that is taken is refused by name', async () => {
    const { server, session } = await serve([{ content: 'a', pieces: [[1, '{}']] }]);
    const port = Number(new URL(server.url).port);
    await assert.rejects(
      startReplayServer({ session, clock: systemClock, timing: { speed: null, holdMs: 1 }, live: null, port, onFault: () => {} }),
      { code: 'address_refused' },
    );
  });
});
