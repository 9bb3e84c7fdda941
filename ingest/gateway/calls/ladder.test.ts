import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeEngine } from '../../../e2e/fake-engine/engine.ts';
import { openGateway, type Made } from '../gateway-under-test.ts';
import { spansOf } from './ladder.ts';

test('a rung counts when it is a prefix of the prompt and longer than the last one', () => {
  const prompt = Uint32Array.of(1, 2, 3, 4, 5, 6);
  const rung = (...ids: number[]) => Uint32Array.from(ids);
  assert.deepEqual(spansOf(prompt, 3, new Map([[0, rung(1, 2)], [1, rung(1, 2, 3)], [2, rung(1, 2, 3, 4, 5)]])), [2, 3, 5]); // prettier-ignore
  assert.deepEqual(
    spansOf(
      prompt,
      3,
      new Map([
        [0, rung(1, 9)],
        [2, rung(1, 2, 3)],
      ]),
    ),
    [null, null, 3],
  );
  assert.deepEqual(spansOf(prompt, 3, new Map([[0, rung(1, 2, 3)], [1, rung(1, 2)], [2, rung(1, 2, 3)]])), [3, null, null]); // prettier-ignore
  assert.equal(spansOf(prompt, 2, new Map([[0, rung(2)], [1, rung(1, 2, 3, 4, 5, 6, 7)]])), null); // prettier-ignore
  assert.equal(spansOf(prompt, 2, new Map()), null);
});

const CHAT = '/v1/chat/completions';
const TOOL = { type: 'function', function: { name: 'find', parameters: { type: 'object', properties: { what: { type: 'string' } } } } };

test('with the ladder the inputs hold their own ids; without it the answer carries them; the path is the same', async () => {
  const engine = await startFakeEngine();
  const upstream = { kind: 'vllm', url: engine.url };
  const gateway = await openGateway({
    upstreams: { plain: { ...upstream, models: { plain: 'toy' } }, ladder: { ...upstream, models: { ladder: 'toy' }, ladder: true } },
  });
  try {
    const paths: number[][] = [];
    for (const model of ['plain', 'ladder']) {
      // time for the rungs, also on a busy machine
      if (model === 'ladder') engine.queueFault({ faults: [{ kind: 'slow_first_token', ms: 1_500 }], match: { path: CHAT }, times: 2 });
      const made: Made = await gateway.rollout();
      const messages: unknown[] = [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'find "iron"' },
      ];
      for (let turn = 0; turn < 2; turn++) {
        const answer = await gateway.post(CHAT, { model, messages, tools: [TOOL], seed: 1 }, { authorization: `Bearer ${made.key}` });
        assert.equal(answer.status, 200, answer.text);
        const { message } = (answer.json as { choices: { message: { tool_calls: { id: string }[] } }[] }).choices[0] as {
          message: { tool_calls: { id: string }[] };
        };
        if (turn === 0) messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0]?.id, content: 'found it' });
      }
      const nodes = await gateway.eventsOf('node.appended', made.trace);
      assert.deepEqual(nodes.map((n) => n.data.role), ['system', 'user', 'assistant', 'tool', 'assistant']); // prettier-ignore
      const lengths = nodes.map((n) => n.data.tokens?.ids.length ?? -1);
      const inputs = [lengths[0], lengths[1], lengths[3]] as number[];
      if (model === 'plain') assert.deepEqual(inputs, [0, 0, 0]);
      else
        assert.ok(
          inputs.every((length) => length > 0),
          String(lengths),
        );
      assert.equal(nodes[1]?.data.attribution, model === 'plain' ? 'none' : 'ladder');
      paths.push(nodes.flatMap((n) => [...(n.data.tokens?.ids.typed() ?? [])]));
    }
    assert.deepEqual(paths[0], paths[1]);
    const rungs = engine.requests().filter((r) => r.path === '/tokenize');
    assert.deepEqual(rungs.map((r) => (r.body as { messages: unknown[] }).messages.length), [1, 2, 4]); // prettier-ignore
  } finally {
    await gateway.close();
    await engine.close();
  }
});

test('rungs that come late, or fail, are not waited for and change nothing', async () => {
  const engine = await startFakeEngine();
  const gateway = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url, ladder: true } } });
  try {
    engine.queueFault({ faults: [{ kind: 'slow_first_token', ms: 60_000 }], match: { path: '/tokenize' } });
    engine.queueFault({ faults: [{ kind: 'status', status: 500 }], match: { path: '/tokenize' }, times: 9 });
    const made = await gateway.rollout();
    for (const content of ['a', 'b']) {
      const answer = await gateway.post(
        CHAT,
        { model: 'toy', messages: [{ role: 'user', content }], stream: content === 'b' },
        { authorization: `Bearer ${made.key}` },
      );
      assert.equal(answer.status, 200);
    }
    const nodes = await gateway.eventsOf('node.appended', made.trace);
    assert.deepEqual(nodes.map((n) => n.data.attribution ?? null), ['none', 'none', 'none', 'none']); // prettier-ignore
    await engine.ended((r) => r.path === '/tokenize' && r.outcome === 'client_closed');
  } finally {
    await gateway.close();
    await engine.close();
  }
});
