/** What passes through without a record: counting tokens, and the list of models. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { openGateway, type TestGateway } from './gateway-under-test.ts';

let claude: FakeEngine;
let vllm: FakeEngine;
let gateway: TestGateway;
before(async () => {
  claude = await startFakeEngine({ kind: 'anthropic', apiKey: 'upstream-key' });
  vllm = await startFakeEngine();
  gateway = await openGateway({
    upstreams: {
      claude: { kind: 'anthropic', url: claude.url, models: { sonnet: 'toy' }, apiKeyEnv: 'KEY' },
      local: { kind: 'vllm', url: vllm.url, models: ['toy'] },
    },
  });
});
after(async () => {
  await gateway.close();
  await Promise.all([claude.close(), vllm.close()]);
});

test("count_tokens goes to Anthropic under the model's own name and with the gateway's key, and nothing is recorded", async () => {
  const made = await gateway.rollout();
  const client = new Anthropic({ baseURL: gateway.url, apiKey: made.key, maxRetries: 0 });
  const messages = [{ role: 'user' as const, content: 'How many tokens?' }];
  const before = (await gateway.events()).length;
  const { input_tokens: counted } = await client.messages.countTokens({ model: 'sonnet', messages });
  assert.ok(counted > 0);
  const seen = claude.requests().at(-1);
  assert.deepEqual([seen?.path, (seen?.body as { model: string } | undefined)?.model, seen?.headers['x-api-key']], ['/v1/messages/count_tokens', 'toy', 'upstream-key']); // prettier-ignore
  assert.equal((await gateway.events()).length, before);
  await client.messages.create({ model: 'sonnet', max_tokens: 20, messages });
  assert.ok((await gateway.events()).length > before, 'while a message is');
  assert.equal((await gateway.eventsOf('call.recorded', made.trace)).length, 1);
});

test('what cannot be counted is refused by name, in the shape of Messages; a wrong key is 401', async () => {
  const made = await gateway.rollout();
  const count = (body: unknown, key = made.key) => gateway.post('/v1/messages/count_tokens', body, { 'x-api-key': key });
  for (const [body, status, says] of [
    [{ model: 'toy', messages: [] }, 404, /no upstream of kind anthropic serves the model \\"toy\\"/],
    [{ messages: [] }, 422, /model/],
    ['{"model":', 400, /JSON/],
  ] as const) {
    const answer = await count(body);
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.text, says);
    assert.equal((answer.json as { type: string }).type, 'error');
  }
  const wrong = await count({ model: 'sonnet', messages: [] }, 'sk-td-none.x');
  assert.equal(wrong.status, 401);
  assert.equal((wrong.json as { error: { type: string } }).error.type, 'authentication_error');
  const refused = await count({ model: 'sonnet', messages: 'x' });
  assert.equal(refused.status, 400, "the upstream's own refusal passes");
});

test('models: all upstreams together under the names that may be asked for; one upstream by its path; a dead one by its settings', async () => {
  const made = await gateway.rollout();
  const list = async (path: string): Promise<string[]> => {
    const answer = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${made.key}` } });
    assert.equal(answer.status, 200);
    return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id).toSorted();
  };
  assert.deepEqual(await list('/v1/models'), ['sonnet', 'toy']);
  assert.deepEqual(await list('/u/local/v1/models'), ['toy']);
  assert.deepEqual(await list(`/k/${made.key}/v1/models`), ['sonnet', 'toy']);
  assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401);
  await claude.close();
  assert.deepEqual(await list('/v1/models'), ['sonnet', 'toy']);
});
