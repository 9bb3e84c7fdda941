/** The unmodified Python packages `openai` and `anthropic` through the gateway. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startFakeEngine } from '../fake-engine/engine.ts';
import { findPython } from '../python.ts';
import { startGatewayServer, vllmUpstream } from './gateway-server.ts';
import { provesIdentity } from './token-identity.ts';

const run = promisify(execFile);
const found = await findPython({ packages: ['openai==3.57.0', 'anthropic==2.14.0'], imports: ['openai', 'anthropic'] });

type Said = {
  readonly chat_tools: { readonly calls: readonly string[]; readonly text: string; readonly tokens: number };
  readonly chat_ids: { readonly prompt: readonly number[]; readonly ids: readonly number[]; readonly logprobs: readonly number[] };
  readonly chat_parse: { readonly types: readonly string[]; readonly arguments: string };
  readonly responses: unknown;
  readonly messages_tools: { readonly inputs: unknown; readonly stop: string; readonly text: string; readonly tokens: number };
  readonly retried: string;
  readonly timed_out: string;
  readonly failures: readonly string[];
  readonly many: readonly string[];
};

test('openai and anthropic for Python', { skip: 'missing' in found ? found.missing : false }, async () => {
  await using engine = await startFakeEngine({ seed: 31 });
  const gateway = await startGatewayServer({ vllm: vllmUpstream(engine, { models: ['toy'] }) });
  try {
    const made = await gateway.rollout();
    engine.queueFault({ faults: [{ kind: 'status', status: 500 }], match: { includes: 'say: retried' }, times: 2 });
    engine.queueFault({ faults: [{ kind: 'slow_first_token', ms: 2500 }], match: { includes: 'say: timed out' } });
    engine.queueFault({ faults: [{ kind: 'cut', afterTokens: 3 }], match: { includes: 'cut me off' } });
    const { python } = found as { python: string };
    const args = [join(import.meta.dirname, 'python/sdk_clients.py'), made.baseUrls.openai, made.baseUrls.anthropic, made.key];
    const said = JSON.parse((await run(python, args, { timeout: 300_000 })).stdout) as Said;
    const answers = engine.requests().filter((r) => r.status === 200 && r.outcome === 'complete' && r.promptIds !== null);
    const idsAnswer = answers.find((r) => JSON.stringify(r.body).includes('"3 + 4"'))!;
    assert.deepEqual(
      { ...said.chat_tools, tokens: 0 },
      { calls: ['{"entity":"iron"}', '{"entity":"tin"}'], text: 'I found this: fact 0, fact 1', tokens: 0 },
    );
    assert.deepEqual(said.chat_ids.prompt, Array.from(idsAnswer.promptIds ?? []));
    assert.deepEqual(said.chat_ids.ids, Array.from(idsAnswer.choices[0]!.ids));
    assert.deepEqual(Float32Array.from(said.chat_ids.logprobs), idsAnswer.choices[0]!.logprobs);
    assert.equal(said.chat_parse.arguments, '{"entity":"zinc"}');
    assert.deepEqual(said.responses, { text: '5 + 6 = 11', streamed: '7 + 8 = 15', first: 'response.created', last: 'response.completed' });
    assert.deepEqual({ ...said.messages_tools, tokens: 0 }, { inputs: [{ entity: 'iron' }, { entity: 'tin' }], stop: 'tool_use', text: 'I found this: fact 0, fact 1', tokens: 0 }); // prettier-ignore
    assert.deepEqual([said.retried, said.timed_out], ['retried', 'timed out']);
    assert.deepEqual(said.failures.slice(0, 3), ['NotFoundError', 'NotFoundError', 'AuthenticationError']);
    assert.notEqual(said.failures[3], 'no error');
    assert.deepEqual(said.many, Array.from({ length: 20 }, (_, i) => `${i} + 100 = ${i + 100}`)); // prettier-ignore
    assert.equal(
      answers.filter((r) => JSON.stringify(r.body).includes('say: timed out')).length,
      1,
      'the call that timed out was ended, its retry answered',
    );
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), answers.length);
    const rows = await gateway.sql<{ good: number; bad: number; retries: number }>(
      'SELECT toUInt32(countIf(error_type IS NULL)) AS good, toUInt32(countIf(error_type IS NOT NULL)) AS bad, toUInt32(countIf(retry_of IS NOT NULL)) AS retries FROM calls WHERE trace = {trace:String}',
      { trace: made.trace },
    );
    // two refusals, the call that the client gave up, and the one that broke off
    assert.deepEqual(rows, [{ good: answers.length, bad: 4, retries: 3 }]);
  } finally {
    await gateway.stop();
  }
});
