import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { startFakeEngine, type FakeEngine } from './engine.ts';
import type { Fault } from './faults.ts';

const ASK = {
  model: 'toy',
  messages: [{ role: 'user', content: 'Say: naïve 你好 🤷 and more words to come' }],
  logprobs: true,
  return_token_ids: true,
};

type Raw = { status: number; headers: Record<string, string | string[] | undefined>; text: string; pieces: Buffer[]; broken: boolean };

/** The bytes as they come, and whether the connection broke before the body ended. */
function raw(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Raw> {
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', headers }, (answer) => {
      const pieces: Buffer[] = [];
      let broken = true;
      answer.on('data', (d: Buffer) => pieces.push(d));
      answer.on('end', () => (broken = !answer.complete));
      answer.on('error', () => {});
      answer.on('close', () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(pieces).toString(), pieces, broken }),
      );
    });
    call.on('error', reject);
    call.end(JSON.stringify(body));
  });
}

describe('faults', () => {
  let engine: FakeEngine;
  let url: string;
  before(async () => {
    engine = await startFakeEngine();
    url = `${engine.url}/v1/chat/completions`;
  });
  after(() => engine.close());
  const stream = (...faults: Fault[]): Promise<Raw> => raw(url, { ...ASK, stream: true }, { 'x-fake-fault': JSON.stringify(faults) });
  const whole = (...faults: Fault[]): Promise<Raw> => raw(url, ASK, { 'x-fake-fault': JSON.stringify(faults) });

  test('none', async () => {
    const { text, broken } = await stream();
    assert.ok(text.endsWith('data: [DONE]\n\n') && !broken);
  });

  test('cut: the connection breaks after the tokens named, or the body ends without its terminal event', async () => {
    const cut = await stream({ kind: 'cut', afterTokens: 3, how: 'destroy' });
    assert.ok(cut.broken);
    assert.equal(cut.text.match(/"token_ids":/g)?.length, 3);
    assert.equal(engine.requests().at(-1)?.outcome, 'cut');
    assert.equal(engine.requests().at(-1)?.sentTokens, 3);
    const end = await stream({ kind: 'cut', afterTokens: 3, how: 'end' });
    assert.ok(!end.broken && !end.text.includes('[DONE]'));
    const late = await stream({ kind: 'cut', afterTokens: 1000, how: 'destroy' });
    assert.ok(late.broken && !late.text.includes('finish_reason":"stop"'), 'at the latest before the end');
    assert.ok((await whole({ kind: 'cut', afterTokens: 0, how: 'destroy' })).broken);
  });

  test('stall: nothing until the client leaves', async () => {
    const client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'x', maxRetries: 0 });
    engine.failNext({ kind: 'stall', afterTokens: 2 });
    const answer = await client.chat.completions.create({ ...ASK, stream: true } as OpenAI.ChatCompletionCreateParamsStreaming);
    let chunks = 0;
    const leave = (async () => {
      for await (const _ of answer) if (++chunks === 3) setTimeout(() => answer.controller.abort(), 20);
    })();
    await leave;
    const n = engine.requests().at(-1)?.n;
    const seen = await engine.ended((r) => r.n === n);
    assert.deepEqual([seen.outcome, seen.sentTokens], ['client_closed', 2]);
  });

  test('slow first token and pace', async () => {
    const began = performance.now();
    await stream({ kind: 'slow_first_token', ms: 150 });
    assert.ok(performance.now() - began >= 150);
  });

  test('malformed lines, unknown events, comments, CRLF, long lines', async () => {
    assert.match((await stream({ kind: 'malformed', afterTokens: 2, text: 'data: {"oops\n\n' })).text, /data: \{"oops\n\ndata: \{"id"/);
    const bad = await whole({ kind: 'malformed', afterTokens: 0, text: '' });
    assert.throws(() => JSON.parse(bad.text) as unknown);
    const unknown = await stream({ kind: 'unknown_events' });
    assert.match(unknown.text, /^event: fake_notice\ndata: .*未知/);
    assert.match(unknown.text, /"x_unknown":\{"list":\[1,null,"é"\]\},"id"/);
    assert.match((await stream({ kind: 'keep_alive', everyTokens: 1 })).text, /: keep-alive\n\ndata: /);
    const crlf = await stream({ kind: 'crlf' });
    assert.ok(crlf.text.endsWith('data: [DONE]\r\n\r\n') && !/[^\r]\n/.test(crlf.text));
    const long = await stream({ kind: 'long_line', afterTokens: 1, bytes: 300_000 });
    assert.ok(long.text.split('\n').some((line) => line.length > 300_000 && line.endsWith('}')));
  });

  test('split: characters and lines fall apart on the wire and come together again', async () => {
    const { pieces, text } = await stream({ kind: 'split', bytes: 7 });
    assert.ok(pieces.length > 20);
    const said = text
      .split('\n\n')
      .filter((e) => e.startsWith('data: {'))
      .map((e) => (JSON.parse(e.slice(6)) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? '');
    assert.equal(said.join(''), 'naïve 你好 🤷 and more words to come');
  });

  test('statuses, in the shape of the dialect or of a proxy', async () => {
    const limited = await stream({ kind: 'status', status: 429, message: 'slow down', retryAfter: '2', html: false });
    assert.deepEqual([limited.status, limited.headers['retry-after']], [429, '2']);
    assert.equal((JSON.parse(limited.text) as { error: { message: string } }).error.message, 'slow down');
    const proxy = await whole({ kind: 'status', status: 502, message: 'Bad Gateway', html: true });
    assert.match(proxy.text, /^<html>/);
    engine.queueFault({ faults: [{ kind: 'status', status: 529 }], match: { path: '/v1/messages' } });
    const client = new Anthropic({ baseURL: engine.url, apiKey: 'x', maxRetries: 0 });
    const ask = { model: 'toy', max_tokens: 9, messages: [{ role: 'user' as const, content: 'hi' }] };
    assert.equal((await whole()).status, 200, 'another path');
    await assert.rejects(client.messages.create(ask), { status: 529, type: 'overloaded_error' });
    await client.messages.create(ask);
  });

  test('clients retry what they should: 500 twice, then the answer', async () => {
    engine.queueFault({ faults: [{ kind: 'status', status: 500 }], times: 2 });
    const client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'x', maxRetries: 2 });
    const from = (engine.requests().at(-1)?.n ?? -1) + 1;
    await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'hi' }] });
    assert.deepEqual(engine.requests(from).map((r) => [r.status, r.headers['x-stainless-retry-count']]), [[500, '0'], [500, '1'], [200, '2']]); // prettier-ignore
  });

  test('empty answers, errors in the stream', async () => {
    const empty = await whole({ kind: 'empty_answer' });
    const message = (JSON.parse(empty.text) as { choices: { message: { content: string }; token_ids: number[] }[] }).choices[0];
    assert.deepEqual([message?.message.content, message?.token_ids], ['', [engine.tokenizer.markers.imEnd]]);
    assert.equal((await stream({ kind: 'empty_body' })).text, '');
    assert.match(
      (await stream({ kind: 'error_event', afterTokens: 2, message: 'dead' })).text,
      /"message":"dead".*\n\ndata: \[DONE\]\n\n$/,
    );
  });

  test('token data that is missing, short, NaN or a sentinel; wrong usage', async () => {
    const bent = async (
      fault: Fault,
    ): Promise<{ ids: number[] | undefined; prompt: number[] | undefined; logprobs: number[] | undefined; text: string }> => {
      const { text } = await whole(fault);
      const parsed = JSON.parse(text.replace('NaN', '"NaN"')) as {
        prompt_token_ids?: number[];
        choices: { token_ids?: number[]; logprobs: { content: { logprob: number }[] } | null }[];
      };
      const choice = parsed.choices[0];
      return { text, ids: choice?.token_ids, prompt: parsed.prompt_token_ids, logprobs: choice?.logprobs?.content.map((c) => c.logprob) };
    };
    const length = (): number => engine.requests().at(-1)?.choices[0]?.ids.length ?? 0;
    assert.equal((await bent({ kind: 'logprobs', how: 'missing', at: 0 })).logprobs, undefined);
    assert.equal((await bent({ kind: 'logprobs', how: 'short', at: 0 })).logprobs?.length, length() - 1);
    assert.match((await bent({ kind: 'logprobs', how: 'nan', at: 1 })).text, /"logprob":NaN/);
    assert.equal((await bent({ kind: 'logprobs', how: 'sentinel', at: 1 })).logprobs?.[1], -9999);
    assert.equal((await bent({ kind: 'logprobs', how: 'null', at: 1 })).logprobs?.[1], null);
    assert.equal((await bent({ kind: 'token_ids', which: 'prompt', how: 'missing' })).prompt, undefined);
    assert.equal((await bent({ kind: 'token_ids', which: 'completion', how: 'short' })).ids?.length, length() - 1);
    assert.match(
      (await bent({ kind: 'wrong_usage', promptTokens: 1, completionTokens: 99 })).text,
      /"prompt_tokens":1,"total_tokens":100,"completion_tokens":99/,
    );
  });

  test('new weights in the middle of an answer: told per chunk, other log-probabilities, later calls use them', async () => {
    await using own = await startFakeEngine({ tellVersion: 'both', policyVersion: 3 });
    const ask = { ...ASK, stream: true, seed: 1 };
    const plain = await raw(`${own.url}/v1/chat/completions`, ask);
    const updated = await raw(`${own.url}/v1/chat/completions`, ask, {
      'x-fake-fault': JSON.stringify({ kind: 'policy_update', afterTokens: 4, version: 5 }),
    });
    const next = await raw(`${own.url}/v1/chat/completions`, ask);
    assert.deepEqual([plain, updated, next].map((r) => r.headers['x-policy-version']), ['3', '3', '5']); // prettier-ignore
    const versions = [...updated.text.matchAll(/"policy_version":(\d)/g)].map((m) => Number(m[1]));
    const [first, second] = own.requests();
    const total = second!.choices[0]!.ids.length;
    assert.deepEqual(
      versions,
      Array.from({ length: total }, (_, i) => (i < 4 ? 3 : 5)),
    );
    assert.deepEqual(second!.choices[0]!.policyRuns, [{ length: 4, version: 3 }, { length: total - 4, version: 5 }]); // prettier-ignore
    assert.deepEqual(second!.choices[0]!.logprobs.slice(0, 4), first!.choices[0]!.logprobs.slice(0, 4));
    assert.notDeepEqual(second!.choices[0]!.logprobs.slice(4), first!.choices[0]!.logprobs.slice(4));
  });

  test('restart: open streams break, the port is closed for a while, then all is as before', async () => {
    await using own = await startFakeEngine();
    const ownUrl = `${own.url}/v1/chat/completions`;
    own.failNext({ kind: 'restart', afterTokens: 2, downMs: 300 });
    assert.ok((await raw(ownUrl, { ...ASK, stream: true })).broken);
    await assert.rejects(raw(ownUrl, ASK), { code: 'ECONNREFUSED' });
    for (let tries = 0; ; tries++) {
      try {
        assert.equal((await raw(ownUrl, ASK)).status, 200);
        break;
      } catch (error) {
        if (tries > 100) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  });

  test('the admin routes do the same from outside', async () => {
    await using own = await startFakeEngine();
    const admin = async (method: string, path: string, body?: unknown): Promise<Response> =>
      fetch(own.url + path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    await admin('POST', '/fake/faults', { faults: [{ kind: 'status', status: 503 }], match: { includes: 'naïve' }, times: 2 });
    assert.equal((await raw(`${own.url}/v1/chat/completions`, ASK)).status, 503);
    await admin('DELETE', '/fake/faults');
    assert.equal((await raw(`${own.url}/v1/chat/completions`, ASK)).status, 200);
    await admin('POST', '/fake/policy', { version: 9 });
    await raw(`${own.url}/v1/chat/completions`, ASK);
    const { requests } = (await (await admin('GET', '/fake/requests?from=1')).json()) as {
      requests: { n: number; choices: { policyRuns: unknown; logprobs: number[] }[] }[];
    };
    assert.deepEqual(requests.map((r) => r.n), [1, 2]); // prettier-ignore
    assert.deepEqual(Float32Array.from(requests[1]!.choices[0]!.logprobs), own.requests()[2]!.choices[0]!.logprobs);
    assert.equal((await admin('POST', '/fake/faults', { faults: [{ kind: 'nonsense' }] })).status, 400);
  });
});

test('2,000 streams are open at once and all complete', async () => {
  await using engine = await startFakeEngine({ pace: { firstTokenMs: 1500, tokenMs: 5 } });
  let most = 0;
  const watch = setInterval(() => (most = Math.max(most, engine.openRequests())), 20);
  const texts = await Promise.all(
    Array.from({ length: 2000 }, async (_, i) => {
      const answer = await raw(`${engine.url}/v1/chat/completions`, {
        model: 'toy',
        stream: true,
        messages: [{ role: 'user', content: `${i} + 1` }],
      });
      return answer.text.endsWith('[DONE]\n\n');
    }),
  );
  clearInterval(watch);
  assert.ok(texts.every(Boolean));
  assert.ok(most > 500, `${most} at once`);
  assert.equal(engine.openRequests(), 0);
});
