/** Bad and odd input in each dialect: refused by name in the dialect's own shape, or recorded verbatim; never dropped, never a crash. */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { nodesOf, provesIdentity } from './token-identity.ts';

const MIB = 1024 * 1024;
type Answer = { readonly status: number; readonly text: string; readonly error: { type?: string; code?: unknown; message?: string } };
type Dialect = {
  readonly name: string;
  readonly path: string;
  ask(content: unknown, more?: Record<string, unknown>): Record<string, unknown>;
  /** The error of an answer in its shape; throws when it has another. */
  errorOf(body: unknown): Answer['error'];
};

const DIALECTS: readonly Dialect[] = [
  {
    name: 'chat',
    path: '/v1/chat/completions',
    ask: (content, more = {}) => ({ model: 'toy', messages: [{ role: 'user', content }], ...more }),
    errorOf: openaiError,
  },
  {
    name: 'responses',
    path: '/v1/responses',
    ask: (content, more = {}) => ({ model: 'toy', input: [{ role: 'user', content }], ...more }),
    errorOf: openaiError,
  },
  {
    name: 'messages',
    path: '/v1/messages',
    ask: (content, more = {}) => ({ model: 'toy', max_tokens: 100, messages: [{ role: 'user', content }], ...more }),
    errorOf: (body) => {
      const { type, error } = body as { type: string; error: Answer['error'] };
      assert.equal(type, 'error');
      return error;
    },
  },
];

function listOf(dialect: Dialect): string {
  return dialect.name === 'responses' ? 'input' : 'messages';
}

function openaiError(body: unknown): Answer['error'] {
  const { error } = body as { error: Answer['error'] };
  assert.ok('type' in error && 'code' in error && 'param' in error, JSON.stringify(body));
  return error;
}

describe('bad input', () => {
  let engine: FakeEngine;
  let gateway: GatewayServer;
  before(async () => {
    engine = await startFakeEngine({ models: [{ id: 'toy', maxModelLen: 4_000_000, thinks: false, earlierReasoning: 'keep' }] });
    gateway = await startGatewayServer({ vllm: vllmUpstream(engine, { models: ['toy'] }) });
  });
  after(async () => {
    await gateway.stop();
    await engine.close();
  });

  const send = async (
    dialect: Dialect,
    made: MadeTrace,
    body: string | Uint8Array,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const answer = await fetch(gateway.url + dialect.path, {
      method: 'POST',
      body: body as string,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${made.key}`, ...headers },
    });
    const text = await answer.text();
    return { status: answer.status, text, error: answer.status >= 400 ? dialect.errorOf(JSON.parse(text)) : {} };
  };
  const largeBlobs = (): string[] =>
    readdirSync(join(gateway.folder, 'blobs'), { recursive: true, withFileTypes: true })
      .filter((f) => f.isFile() && statSync(join(f.parentPath, f.name)).size > 300_000)
      .map((f) => f.name);
  const alive = async (): Promise<void> => {
    const made = await gateway.rollout();
    const answer = await send(DIALECTS[0] as Dialect, made, JSON.stringify((DIALECTS[0] as Dialect).ask('1 + 1')));
    assert.equal(answer.status, 200, answer.text);
  };

  for (const dialect of DIALECTS) {
    test(`${dialect.name}: what cannot be read or is not known is refused by name, by the gateway or the engine`, async () => {
      const made = await gateway.rollout();
      const from = engine.requests().filter((r) => r.method === 'POST').length;
      for (const [what, body, status, says] of [
        ['no JSON', '{"model": "toy", ', 400, /json|cut off/i],
        ['nothing', '', 400, /empty|json|cut off/i],
        ['no object', '[1, 2]', 400, /object/i],
        ['a key twice', '{"model": "toy", "model": "other"}', 400, /model|twice|duplicate/i],
        ['no messages', JSON.stringify({ model: 'toy', ...(dialect.name === 'messages' && { max_tokens: 5 }) }), 400, /messages|input/],
        ['empty messages', JSON.stringify({ ...dialect.ask('x'), [listOf(dialect)]: [] }), 400, /messages|input|empty/],
        ['a wrong role', JSON.stringify(dialect.ask('x', { [listOf(dialect)]: [{ role: 'wizard', content: 'x' }] })), 400, /role|wizard/],
        ['an unknown model', JSON.stringify(dialect.ask('x', { model: 'no-such-model' })), 404, /no-such-model/],
        [
          'broken UTF-8',
          Buffer.concat([Buffer.from('{"model": "toy", "x": "'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]),
          400,
          /utf-?8/i,
        ],
      ] as const) {
        const answer = await send(dialect, made, body);
        assert.ok(answer.status === status || answer.status === 422, `${what}: ${answer.status} ${answer.text}`);
        assert.match(answer.error.message ?? '', says, what);
        assert.ok(typeof answer.error.type === 'string', what);
      }
      // what is a matter of the engine, like roles, it refuses itself
      assert.ok(engine.requests().filter((r) => r.method === 'POST').slice(from).every((r) => r.status === 400 && r.promptIds === null)); // prettier-ignore
      await alive();
    });

    test(`${dialect.name}: a body of 100 MB is refused before it is all read`, async () => {
      const made = await gateway.rollout();
      const before = gateway.server().pid;
      const status = await sendLarge(gateway.url + dialect.path, made.key, 100 * MIB);
      assert.equal(status, 413);
      assert.equal(gateway.server().pid, before);
      await alive();
    });

    test(`${dialect.name}: NUL, lone surrogates, odd characters, numbers and unknown fields are recorded as they were sent`, async () => {
      const made = await gateway.rollout();
      const odd = 'say: a\u0000b \u{1F469}\u200D\u{1F680} \u202E rtl \uFEFF end';
      const answer = await send(dialect, made, JSON.stringify(dialect.ask(odd)));
      assert.equal(answer.status, 200, answer.text);
      const lone = await send(dialect, made, `${JSON.stringify(dialect.ask('MARK')).replace('MARK', 'say: x\\ud800y')}`);
      assert.ok(lone.status === 200 || /surrogate|utf|unicode/i.test(lone.error.message ?? ''), lone.text);
      const nodes = await nodesOf(gateway, made.trace);
      assert.equal((JSON.parse(nodes[0]?.message ?? '{}') as { content: unknown }).content, odd);
      if (lone.status === 200) assert.match(nodes.filter((n) => n.role === 'user').at(-1)?.message ?? '', /x\\ud800y/i);
      assert.ok((await provesIdentity(gateway, engine.requests(), made.trace)) >= 1);
    });

    test(`${dialect.name}: 10,000 tool definitions`, async () => {
      const made = await gateway.rollout();
      const tools = Array.from({ length: 10_000 }, (_, i) => {
        const schema = { type: 'object', properties: { entity: { type: 'string' } } };
        if (dialect.name === 'messages') return { name: `tool_${i}`, input_schema: schema };
        if (dialect.name === 'responses') return { type: 'function', name: `tool_${i}`, parameters: schema, strict: false };
        return { type: 'function', function: { name: `tool_${i}`, parameters: schema } };
      });
      const answer = await send(dialect, made, JSON.stringify(dialect.ask('Use tool_9999 for "iron".', { tools })));
      assert.equal(answer.status, 200, answer.text.slice(0, 300));
      assert.match(answer.text, /tool_9999/);
      assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
    });
  }

  test('an image as a data URL goes to the engine as it is and its bytes are stored once', async () => {
    const made = await gateway.rollout();
    const known = new Set(largeBlobs());
    const pixels = Buffer.alloc(300_000, 7).toString('base64');
    const [chat, responses, messages] = DIALECTS as [Dialect, Dialect, Dialect];
    const url = `data:image/png;base64,${pixels}`;
    const asks = [
      [
        chat,
        chat.ask([
          { type: 'image_url', image_url: { url } },
          { type: 'text', text: '1 + 2' },
        ]),
      ],
      [
        responses,
        responses.ask([
          { type: 'input_image', image_url: url, detail: 'auto' },
          { type: 'input_text', text: '1 + 2' },
        ]),
      ],
      [
        messages,
        messages.ask([
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixels } },
          { type: 'text', text: '1 + 2' },
        ]),
      ],
    ] as const;
    for (const [dialect, body] of asks) {
      const answer = await send(dialect, made, JSON.stringify(body));
      assert.equal(answer.status, 200, `${dialect.name}: ${answer.text.slice(0, 300)}`);
      assert.ok(JSON.stringify(engine.requests().at(-1)?.body).includes(pixels), `${dialect.name}: the engine gets the image`);
    }
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 3);
    const nodes = await nodesOf(gateway, made.trace);
    const users = nodes.filter((n) => n.role === 'user');
    assert.ok(users.length > 0 && users.every((n) => n.message?.includes(pixels)), 'whoever reads the message gets the image');
    const large = largeBlobs().filter((name) => !known.has(name));
    assert.equal(large.length, 2, `the data URL and the bare base64, each once: ${large.join(' ')}`);
  });

  test('tool arguments that are no JSON come through and go back as they are', async () => {
    const made = await gateway.rollout();
    const [chat] = DIALECTS as [Dialect];
    const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"entity": iron' } };
    const history = [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'no' },
    ];
    const answer = await send(chat, made, JSON.stringify({ ...chat.ask('x'), messages: history }));
    assert.equal(answer.status, 200, answer.text);
    const nodes = await nodesOf(gateway, made.trace);
    assert.match(nodes[1]?.message ?? '', /\{\\"entity\\": iron/);
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
  });

  test('compressed bodies, wrong media types, wrong methods, a body slower than its limit', async () => {
    const made = await gateway.rollout();
    const [chat] = DIALECTS as [Dialect];
    const gzip = await send(chat, made, new Uint8Array((await import('node:zlib')).gzipSync(JSON.stringify(chat.ask('1 + 1')))), {
      'content-encoding': 'gzip',
    });
    assert.equal(gzip.status, 200, gzip.text);
    const form = await send(chat, made, 'model=toy', { 'content-type': 'application/x-www-form-urlencoded' });
    assert.equal(form.status, 415);
    const got = await fetch(gateway.url + chat.path, { headers: { authorization: `Bearer ${made.key}` } });
    assert.ok(got.status === 404 || got.status === 405);
    await got.text();
    await alive();
  });
});

/** Sends as much of a large body as is taken; answers the status. */
function sendLarge(url: string, key: string, size: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(
      url,
      { method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, 'content-length': size } },
      (answer) => {
        resolve(answer.statusCode ?? 0);
        answer.resume();
        call.destroy();
      },
    );
    call.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
    const piece = Buffer.alloc(MIB, 0x20);
    let left = size;
    const more = (): void => {
      while (left > 0 && !call.destroyed) {
        left -= piece.length;
        if (!call.write(piece)) {
          call.once('drain', more);
          return;
        }
      }
    };
    more();
  });
}
