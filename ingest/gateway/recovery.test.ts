/** The log is the only store: what a gateway knows after a restart, after states left memory, and when the log cannot take what it should. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { TapedeckError } from '../../base/errors.ts';
import { openGateway, type Made, type TestGateway, type TestGatewayOptions } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
type Message = { role: string; content: string };

let engine: FakeEngine;
let gateway: TestGateway;
const bearer = (made: Made) => ({ authorization: `Bearer ${made.key}` });

/** Says something and gives the whole conversation back. */
async function turn(made: Made, history: readonly Message[], content: string, headers: Record<string, string> = {}): Promise<Message[]> {
  const messages = [...history, { role: 'user', content }];
  const answer = await gateway.post(CHAT, { model: 'toy', messages }, { ...bearer(made), ...headers });
  assert.equal(answer.status, 200, answer.text);
  const said = (answer.json as { choices: { message: Message }[] }).choices[0]?.message as Message;
  return [...messages, { role: 'assistant', content: said.content }];
}

const lastBody = <T>(): T => (engine.requests().at(-1) as { body: unknown }).body as T;
const parents = async (trace: string) => (await gateway.eventsOf('node.appended', trace)).map((n) => n.data.parent ?? null);
const indices = async (trace: string) => (await gateway.eventsOf('call.recorded', trace)).map((c) => c.data.index);

async function open(options: Partial<TestGatewayOptions> = {}): Promise<void> {
  gateway = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url } }, ...options });
}

before(async () => {
  engine = await startFakeEngine();
});
after(() => engine.close());
beforeEach(() => engine.clearRequests());
afterEach(() => gateway.close());

describe('after a restart', () => {
  test('a trace goes on where it was: the graph, the index of the call, the limits', async () => {
    await open();
    const made = await gateway.rollout({ limits: { turns: 3 } });
    let talk = await turn(made, [], 'What is 1 + 1?');
    talk = await turn(made, talk, 'And 2 + 2?');
    await gateway.restart();
    await turn(made, talk, 'And 3 + 3?');
    assert.deepEqual(await parents(made.trace), [null, 0, 1, 2, 3, 4]);
    assert.deepEqual(await indices(made.trace), [0, 1, 2]);
    assert.deepEqual(
      (await gateway.eventsOf('call.recorded', made.trace)).map((c) => c.data.extends ?? null),
      [null, true, true],
    );
    const refused = await gateway.post(CHAT, { model: 'toy', messages: [{ role: 'user', content: 'x' }] }, bearer(made));
    assert.match(refused.text, /max_turns/);
    await gateway.restart();
    assert.match((await gateway.post(CHAT, { model: 'toy', messages: [{ role: 'user', content: 'x' }] }, bearer(made))).text, /max_turns/);
    assert.deepEqual(await indices(made.trace), [0, 1, 2, 3], 'a refusal is recorded once, also over a restart');
    const ended = await gateway.post(`/v1/rollouts/${made.rollout}/end`, { ok: true }, bearer(made));
    assert.deepEqual(ended.json, {
      rollout: made.rollout,
      ok: true,
      stopCondition: 'max_turns',
      traces: { [made.trace]: { nodes: 6, calls: 4 } },
    });
  });

  test('what was ended stays ended, and says why', async () => {
    await open();
    const made = await gateway.rollout();
    await gateway.post(`/v1/rollouts/${made.rollout}/end`, { ok: false, stopCondition: 'gave_up' });
    await gateway.restart();
    assert.equal((await gateway.post(`/v1/rollouts/${made.rollout}/end`, {})).status, 404, 'without a key nobody knows where it lies');
    const late = await gateway.post(CHAT, { model: 'toy', messages: [] }, bearer(made));
    assert.equal(late.status, 409);
    assert.match(late.text, /gave_up/);
    const again = await gateway.post(`/v1/rollouts/${made.rollout}/end`, { ok: false }, bearer(made));
    assert.equal((again.json as { stopCondition: string }).stopCondition, 'gave_up');
  });

  test('many at once share few passes, forced values and added traces are still there', async () => {
    await open();
    const all = await Promise.all(Array.from({ length: 12 }, (_, i) => gateway.rollout({ sampling: { temperature: i / 16 } })));
    const judge = (await gateway.post(`/v1/rollouts/${all[3]?.rollout}/traces`, { agent: { name: 'judge' }, model: 'toy-small' }))
      .json as Made;
    const talks = await Promise.all(all.map((made) => turn(made, [], 'What is 4 + 4?')));
    await gateway.restart();
    engine.clearRequests();
    const ends = (await gateway.log.positions()).map(({ end }) => end);
    let reads = 0;
    gateway.onRead = (partition, from) => (reads += from < (ends[partition] ?? 0) ? 1 : 0);
    await Promise.all(all.map((made, i) => turn(made, talks[i] as Message[], `And ${i} + 5?`)));
    await turn(judge, [], 'judge');
    assert.ok(reads >= 2 && reads <= 8, `${reads} reads of 2 partitions for 12 rollouts`);
    const sent = engine.requests().map((r) => (r.body as { temperature?: number }).temperature);
    assert.deepEqual(sent.slice(0, 12).toSorted((a, b) => (a ?? 0) - (b ?? 0)), all.map((_, i) => i / 16)); // prettier-ignore
    assert.equal(lastBody<{ model: string }>().model, 'toy-small');
    for (const made of all) assert.deepEqual(await parents(made.trace), [null, 0, 1, 2]);
  });

  test('a response is found again by its id', async () => {
    await open();
    const made = await gateway.rollout();
    const first = await gateway.post('/v1/responses', { model: 'toy', instructions: 'Be brief.', input: 'What is 5 + 5?' }, bearer(made));
    const { id } = first.json as { id: string };
    await gateway.restart();
    const second = await gateway.post('/v1/responses', { model: 'toy', previous_response_id: id, input: 'And 6 + 6?' }, bearer(made));
    assert.equal(second.status, 200, second.text);
    const sent = lastBody<{ messages: Message[] }>().messages.map(({ role, content }) => [role, content]);
    assert.deepEqual(sent, [
      ['user', 'What is 5 + 5?'],
      ['assistant', '5 + 5 = 10'],
      ['user', 'And 6 + 6?'],
    ]);
  });

  test('a key made with another secret, or of a rollout that this log does not have, is 401', async () => {
    await open();
    const made = await gateway.rollout();
    await gateway.close();
    await open();
    const foreign = await gateway.post(CHAT, { model: 'toy', messages: [] }, bearer(made));
    assert.equal(foreign.status, 401);
    assert.match(foreign.text, /not in this log/);
  });
});

describe('sessions of a run key', () => {
  test('are made once each, mirror the session, and are found again after a restart and after they left memory', async () => {
    await open({ limits: { stateBytes: 1 } });
    const key = (await gateway.post('/v1/runs/r/keys', { sampling: { temperature: 0.5 }, limits: { turns: 4 } })).json as Made;
    const say = async (session: string, content: string): Promise<number> =>
      (await gateway.post(CHAT, { model: 'toy', messages: [{ role: 'user', content }] }, { ...bearer(key), 'x-session-id': session }))
        .status;
    assert.deepEqual(await Promise.all(['a', 'a', 'b', 'a', 'c'].map((s, i) => say(s, `q${i}`))), [200, 200, 200, 200, 200]);
    await gateway.restart();
    assert.deepEqual(await Promise.all(['a', 'b', 'd'].map((s) => say(s, 'again'))), [200, 200, 200]);
    const started = await gateway.eventsOf('trace.started');
    assert.deepEqual(new Set(started.map((e) => e.trace)), new Set(['wire:a', 'wire:b', 'wire:c', 'wire:d']));
    assert.equal(started.length, 4);
    for (const { trace, data } of started) assert.equal(`wire:${data.mirrorOf}`, trace);
    assert.deepEqual(
      (await indices('wire:a')).toSorted((a, b) => a - b),
      [0, 1, 2, 3],
    );
    assert.deepEqual(await indices('wire:b'), [0, 1]);
    assert.equal(await say('a', 'one more'), 400, 'the limit counts over the restart');
    assert.equal(lastBody<{ temperature: number }>().temperature, 0.5);
    const unnamed = await gateway.post(CHAT, { model: 'toy', messages: [] }, bearer(key));
    assert.equal(unnamed.status, 400);
    assert.match(unnamed.text, /X-Session-ID/);
  });
});

describe('memory', () => {
  test('idle rollouts leave it and come back the same', async () => {
    await open({ limits: { stateBytes: 1 } });
    const all = await Promise.all(Array.from({ length: 6 }, () => gateway.rollout()));
    const talks = await Promise.all(all.map((made) => turn(made, [], 'What is 7 + 7?')));
    assert.match(await gateway.registry.metrics(), /tapedeck_gateway_rollouts 0/);
    for (const [i, made] of all.entries()) await turn(made, talks[i] as Message[], 'And 8 + 8?');
    for (const made of all) {
      assert.deepEqual(await parents(made.trace), [null, 0, 1, 2]);
      assert.deepEqual(await indices(made.trace), [0, 1]);
    }
  });
});

describe('when the log cannot', () => {
  const ask = { model: 'toy', messages: [{ role: 'user', content: 'What is 9 + 9?' }] };

  test('store at once, the answer waits and comes when it can', async () => {
    await open();
    const made = await gateway.rollout();
    let failures = 3;
    gateway.tap = () => {
      if (failures-- > 0) throw new TapedeckError('append_unclear', 'who knows');
    };
    assert.equal((await gateway.post(CHAT, ask, bearer(made))).status, 200);
    assert.deepEqual(await parents(made.trace), [null, 0]);
  });

  test('store fast: on a disk that takes half a second for each write, 60 streams flow meanwhile and end when they are stored, in order', async () => {
    await open();
    const made = await Promise.all(Array.from({ length: 12 }, () => gateway.rollout()));
    let writing = 0;
    gateway.tap = async () => {
      writing++;
      await sleep(500);
      writing--;
    };
    let flowed = 0;
    const stored = async (trace: string): Promise<number> => (await gateway.eventsOf('call.recorded', trace)).length;
    const stream = async (one: Made, content: string): Promise<void> => {
      const body = JSON.stringify({ model: 'toy', stream: true, messages: [{ role: 'user', content }] });
      const headers = { 'content-type': 'application/json', ...bearer(one) };
      const response = await fetch(gateway.url + CHAT, { method: 'POST', body, headers });
      let text = '';
      for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
        text += Buffer.from(chunk).toString();
        if (!text.includes('[DONE]') && writing > 0) flowed++;
      }
      assert.match(text, /\[DONE\]/);
      assert.ok((await stored(one.trace)) > 0);
    };
    await Promise.all(Array.from({ length: 60 }, (_, i) => stream(made[i % made.length] as Made, `${i} + 1`)));
    assert.ok(flowed > 0, 'streams stood still while the disk wrote');
    for (const { trace } of made)
      assert.deepEqual(
        (await indices(trace)).toSorted((a, b) => a - b),
        [0, 1, 2, 3, 4],
      );
  });

  test('store in time, no harness is told an end; what was pending is stored first when it can again, once', async () => {
    await open({ limits: { durableMs: 50 } });
    const made = await gateway.rollout();
    let isDown = true;
    const { log } = gateway;
    gateway.tap = async (partition, records) => {
      if (!isDown) return;
      // the worst case: stored, and nobody is told
      await log.append(partition, records);
      throw new TapedeckError('append_unclear', 'who knows');
    };
    const whole = await gateway.post(CHAT, ask, bearer(made));
    assert.equal(whole.status, 503);
    assert.match(whole.text, /append_unclear/);
    const streamed = await gateway.post(CHAT, { ...ask, stream: true }, bearer(made)).then((a) => a.text, String);
    assert.ok(!streamed.includes('[DONE]'), streamed);
    isDown = false;
    assert.equal((await gateway.post(CHAT, ask, bearer(made))).status, 200);
    const calls = await gateway.eventsOf('call.recorded', made.trace);
    const nodes = await gateway.eventsOf('node.appended', made.trace);
    assert.deepEqual([...new Map(calls.map((c) => [c.id, c.data.index])).values()], [0, 1]);
    assert.deepEqual([...new Map(nodes.map((n) => [n.id, n.data.index])).values()], [0, 1, 2]);
    await gateway.restart();
    assert.equal((await gateway.post(CHAT, ask, bearer(made))).status, 200);
    assert.deepEqual([...new Set(await indices(made.trace))], [0, 1, 2], 'events that stand twice in the log are folded once');
  });
});

describe('large and odd requests', () => {
  test('a small image is a blob all the same, stored once for all turns', async () => {
    await open();
    const made = await gateway.rollout();
    const url = `data:image/png;base64,${Buffer.alloc(6_000, 9).toString('base64')}`;
    const content = [
      { type: 'image_url', image_url: { url } },
      { type: 'text', text: 'What is it?' },
    ];
    for (const text of ['a', 'b']) {
      const messages = [
        { role: 'user', content },
        { role: 'assistant', content: text },
        { role: 'user', content: text },
      ];
      assert.equal((await gateway.post(CHAT, { model: 'toy', messages }, bearer(made))).status, 200);
    }
    const { blobHandles } = await import('../../events/codec/blob-tags.ts');
    const hashes = new Set<string>();
    for (let p = 0; p < gateway.log.partitions; p++) {
      const { records } = await gateway.log.read(p, 0, { maxBytes: 1 << 24 });
      for (const { value } of records) {
        assert.ok(!Buffer.from(value).includes(url), 'no record holds the image');
        for (const { sha256 } of blobHandles(value)) hashes.add(sha256);
      }
    }
    assert.equal(hashes.size, 1);
    assert.ok(JSON.stringify((await gateway.eventsOf('node.appended', made.trace))[0]?.data.message).includes(url));
  });

  test('a request of many small values that fits no record is kept as its own text', async () => {
    await open({ acceptLimits: { eventBytes: 20_000, valueBytes: 8_000 } });
    const made = await gateway.rollout();
    const tools = Array.from({ length: 120 }, (_, i) => ({
      type: 'function',
      function: {
        name: `tool_${i}`,
        description: `does ${i} things, and a few more than that, at any time of the day or night ${'.'.repeat(60)}`,
        parameters: { type: 'object', properties: { x: { type: 'string' } } },
      },
    }));
    const body = { model: 'toy', messages: [{ role: 'user', content: 'Say nothing' }], tools, tool_choice: 'none' };
    const answer = await gateway.post(CHAT, body, bearer(made));
    assert.equal(answer.status, 200, answer.text.slice(0, 300));
    const [call] = await gateway.eventsOf('call.recorded', made.trace);
    assert.equal(typeof call?.data.request, 'string');
    assert.deepEqual(JSON.parse(call?.data.request as string), body);
    assert.equal((JSON.parse(call?.data.response as string) as { object: string }).object, 'chat.completion');
  });
});
