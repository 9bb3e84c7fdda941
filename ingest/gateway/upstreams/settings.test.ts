import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readUpstreams } from './settings.ts';

const read = (value: unknown) => readUpstreams(value, (name) => ({ SOME_KEY: 'secret-value' })[name]);

test('a root, an API base and a longer path lead to the right places', () => {
  const places = (kind: string, url: string) => {
    const found = read({ a: { kind, url } });
    assert.ok(found.ok);
    return [found.value[0]?.rootUrl, found.value[0]?.apiUrl];
  };
  assert.deepEqual(places('vllm', 'http://h:8000'), ['http://h:8000', 'http://h:8000/v1']);
  assert.deepEqual(places('vllm', 'http://h:8000/v1/'), ['http://h:8000', 'http://h:8000/v1']);
  assert.deepEqual(places('vllm', 'http://h/engine'), ['http://h/engine', 'http://h/engine/v1']);
  assert.deepEqual(places('openai-compatible', 'https://h/v1beta/openai/'), ['https://h/v1beta/openai', 'https://h/v1beta/openai']);
  assert.deepEqual(places('anthropic', 'https://api.anthropic.com'), ['https://api.anthropic.com', 'https://api.anthropic.com/v1']);
});

test('engines are asked for tokens and for their health, providers are not, unless told otherwise', () => {
  const found = read({
    a: { kind: 'vllm', url: 'http://h' },
    b: { kind: 'openai', url: 'https://h', apiKeyEnv: 'SOME_KEY' },
    c: { kind: 'openai-compatible', url: 'http://h', tokens: true, health: { path: '/up' } },
    d: { kind: 'sglang', url: 'http://h', health: { path: null } },
  });
  assert.ok(found.ok);
  assert.deepEqual(
    found.value.map((u) => [u.name, u.asksTokens, u.healthPath, u.apiKey]),
    [['a', true, '/health', null], ['b', false, null, 'secret-value'], ['c', true, '/up', null], ['d', true, null, null]],
  ); // prettier-ignore
});

test('every bad field is named at once', () => {
  const found = read({
    a: { kind: 'llama', url: 'ftp://h', timeouts: { idleMs: 0 }, unknown: 1 },
    'bad name!': { kind: 'vllm', url: 'http://h' },
  });
  assert.ok(!found.ok);
  for (const part of ['a.kind', 'a.url', 'a.timeouts.idleMs', 'unknown', 'bad name!'])
    assert.ok(found.error.message.includes(part), `${part}: ${found.error.message}`);
});

test('a key that the environment does not have is named by its variable', () => {
  const found = read({ a: { kind: 'openai', url: 'https://h', apiKeyEnv: 'NO_SUCH' } });
  assert.ok(!found.ok && found.error.message.includes('NO_SUCH'));
});
