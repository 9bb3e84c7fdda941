/** Every recording call, as it arrives in the log: nothing is refused, nothing is changed, and what cannot be recorded is an error at the call. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PackedArray } from '../../events/packed-array.ts';
import { createRecorder, currentTrace, type Recorder, type RecorderOptions, type Rejected } from '../../harness-sdk/index.ts';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';

let edge: Edge;
let recorder: Recorder;
const rejected: Rejected[] = [];
before(async () => {
  edge = await openEdge();
  recorder = createRecorder({ url: edge.url, lingerMs: 1, onRejected: (list) => rejected.push(...list) });
});
after(async () => {
  await recorder.close();
  await edge.close();
  assert.deepEqual(rejected, []);
});

type Stored = { type: string; run?: string; group?: string; rollout?: string; trace?: string; time: number; data: Record<string, unknown> };
async function storedOf(run: string): Promise<Stored[]> {
  await recorder.flush();
  return (await edge.stored())
    .map(({ event }) => event as Stored & { producer: { id: string; seq: number } })
    .filter((event) => event.run === run)
    .toSorted((a, b) => a.producer.seq - b.producer.seq);
}

/** Without what the clock says. */
function timeless(value: unknown): unknown {
  if (value instanceof PackedArray) return [...value.typed()];
  if (Array.isArray(value)) return value.map(timeless);
  if (typeof value !== 'object' || value === null) return value;
  const times = new Set(['started', 'ended', 'start', 'end', 'traceback']);
  return Object.fromEntries(Object.entries(value).filter(([key]) => !times.has(key)).map(([key, each]) => [key, timeless(each)])); // prettier-ignore
}

test('a whole run', async () => {
  const run = recorder.run({
    id: 'whole',
    kind: 'train',
    name: 'a run',
    model: 'toy',
    config: { lr: 1e-6 },
    tags: ['x'],
    envs: [{ id: 'sums' }],
  });
  const rollout = run.rollout({ id: 'r1', env: { id: 'sums', args: { max: 9 } }, task: { key: 't', data: { a: 1 } }, group: { id: 'g', size: 2 }, work: { type: 'train', step: 3 }, policyVersion: 3, attempt: 0 }); // prettier-ignore
  const trace = rollout.trace({
    id: 't1',
    agent: { name: 'solver', model: 'toy', trainable: true },
    tools: [{ name: 'look' }],
    runtime: { node: 20 },
  });
  assert.equal(trace.message({ role: 'system', content: 'Be exact.' }), 0);
  assert.equal(trace.message({ role: 'user', content: 'What is 1 + 1?' }, { tokens: { ids: [5, 6] } }), 1);
  const answer = trace.message({ role: 'assistant', content: '2' }, { sampled: true, call: 0, policyVersion: 3, tokens: { ids: Uint32Array.of(9, 7, 8), mask: [false, true, true], logprobs: [-0.5, -0.25], policyRuns: [{ length: 1, version: 3 }, { length: 1, version: 4 }] } }); // prettier-ignore
  assert.equal(trace.message({ role: 'assistant', content: '3' }, { parent: 1, sampled: true, forkReason: 'resample', partial: true }), 3);
  assert.equal(trace.message({ role: 'user', content: 'Anew' }, { parent: null }), 4);
  assert.equal(trace.call({ node: answer, model: 'toy', usage: { promptTokens: 3, completionTokens: 2 }, finishReason: 'stop' }), 0);
  assert.equal(trace.call({ error: Object.assign(new TypeError('broken'), { status: 500 }) }), 1);
  const tool = trace.tool({ name: 'look', id: 'call-1', node: answer });
  tool.end({ resultNode: 4 });
  tool.end({ error: 'too late' });
  await assert.rejects(
    trace.tool({ name: 'fail', id: 'call-2' }).run(() => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(await trace.tool({ name: 'fine', id: 'call-3' }).run(() => 7), 7);
  const judge = rollout.trace({ id: 't2', agent: 'judge' });
  trace.link('agent_message', judge.at(0), answer);
  rollout.link('continuation', trace.at(), judge.at());
  const first = trace.reward('correct', 1, 0.5, { kind: 'code', name: 'check', version: '2' });
  trace.reward('correct', null, undefined, 'human', { supersedes: first });
  trace.reward('style', Number.NaN, 1, 'model', { node: answer });
  rollout.reward('group bonus', -0);
  trace.metric('length', 3);
  trace.metric('entropy', null, answer);
  rollout.metric('turns', 2);
  run.metric('loss', Number.POSITIVE_INFINITY);
  trace.note({ label: 'odd', text: 'look here' }, answer);
  judge.error({ type: 'refused', message: 'would not say', statusCode: 403 });
  judge.end();
  judge.end({ ok: true });
  rollout.end({ stopCondition: 'done' });
  run.sealGroup('g', 1, 'deadline');
  run.end({ metrics: { reward: 1 } });
  const events = await storedOf('whole');
  const scope = ({ group, rollout: r, trace: t }: Stored): string => [group, r, t].filter(Boolean).join('/');
  const said = events.map((event) => [event.type, scope(event), timeless(event.data)]);
  assert.deepEqual(said, [
    ['run.started', '', { kind: 'train', name: 'a run', model: 'toy', config: { lr: 1e-6 }, envs: [{ id: 'sums' }], tags: ['x'] }],
    ['rollout.started', 'g/r1', { env: { id: 'sums', args: { max: 9 } }, task: { key: 't', data: { a: 1 } }, group: { id: 'g', size: 2 }, work: { type: 'train', step: 3 }, policyVersion: 3, attempt: 0 }],
    ['trace.started', 'g/r1/t1', { agent: { name: 'solver', model: 'toy', trainable: true }, runtime: { node: 20 }, tools: [{ name: 'look' }] }],
    ['node.appended', 'g/r1/t1', { index: 0, parent: null, role: 'system', message: { role: 'system', content: 'Be exact.' }, sampled: false }],
    ['node.appended', 'g/r1/t1', { index: 1, parent: 0, role: 'user', message: { role: 'user', content: 'What is 1 + 1?' }, sampled: false, tokens: { ids: [5, 6], mask: [0, 0] } }],
    ['node.appended', 'g/r1/t1', { index: 2, parent: 1, role: 'assistant', message: { role: 'assistant', content: '2' }, sampled: true, tokens: { ids: [9, 7, 8], mask: [0, 1, 1], logprobs: [-0.5, -0.25], policyRuns: [{ length: 1, version: 3 }, { length: 1, version: 4 }] }, policyVersion: 3, call: 0 }],
    ['node.appended', 'g/r1/t1', { index: 3, parent: 1, role: 'assistant', message: { role: 'assistant', content: '3' }, sampled: true, forkReason: 'resample', partial: true }],
    ['node.appended', 'g/r1/t1', { index: 4, parent: null, role: 'user', message: { role: 'user', content: 'Anew' }, sampled: false }],
    ['call.recorded', 'g/r1/t1', { index: 0, node: 2, model: 'toy', usage: { promptTokens: 3, completionTokens: 2 }, finishReason: 'stop' }],
    ['call.recorded', 'g/r1/t1', { index: 1, error: { type: 'TypeError', message: 'broken', statusCode: 500 } }],
    ['tool.recorded', 'g/r1/t1', { toolCallId: 'call-1', node: 2, name: 'look', time: {}, resultNode: 4 }],
    ['tool.recorded', 'g/r1/t1', { toolCallId: 'call-2', name: 'fail', time: {}, error: { type: 'Error', message: 'no' } }],
    ['tool.recorded', 'g/r1/t1', { toolCallId: 'call-3', name: 'fine', time: {} }],
    ['trace.started', 'g/r1/t2', { agent: { name: 'judge' } }],
    ['link.added', 'g/r1/t1', { from: { trace: 't1', node: 2 }, to: { trace: 't2', node: 0 }, type: 'agent_message' }],
    ['link.added', 'g/r1', { from: { trace: 't1' }, to: { trace: 't2' }, type: 'continuation' }],
    ['reward.assigned', 'g/r1/t1', { scope: 'trace', name: 'correct', score: 1, weight: 0.5, source: { kind: 'code', name: 'check', version: '2' } }],
    ['reward.assigned', 'g/r1/t1', { scope: 'trace', name: 'correct', score: null, source: { kind: 'human' }, supersedes: first }],
    ['reward.assigned', 'g/r1/t1', { scope: 'node', node: 2, name: 'style', score: Number.NaN, weight: 1, source: { kind: 'model' } }],
    ['reward.assigned', 'g/r1', { scope: 'rollout', name: 'group bonus', score: -0 }],
    ['metric.recorded', 'g/r1/t1', { scope: 'trace', name: 'length', value: 3 }],
    ['metric.recorded', 'g/r1/t1', { scope: 'node', node: 2, name: 'entropy', value: null }],
    ['metric.recorded', 'g/r1', { scope: 'rollout', name: 'turns', value: 2 }],
    ['metric.recorded', '', { scope: 'run', name: 'loss', value: Number.POSITIVE_INFINITY }],
    ['note.added', 'g/r1/t1', { scope: 'node', node: 2, label: 'odd', text: 'look here' }],
    ['error.recorded', 'g/r1/t2', { scope: 'trace', type: 'refused', message: 'would not say', statusCode: 403 }],
    ['trace.ended', 'g/r1/t2', { ok: false, counts: { nodes: 0, calls: 0 } }],
    ['trace.ended', 'g/r1/t1', { ok: null, counts: { nodes: 5, calls: 2 } }],
    ['rollout.ended', 'g/r1', { ok: true, stopCondition: 'done', counts: { traces: 2 } }],
    ['group.sealed', 'g', { size: 1, reason: 'deadline' }],
    ['run.ended', '', { status: 'completed', metrics: { reward: 1 } }],
  ]); // prettier-ignore
});

test('bytes are data: surrogates, NUL, integers beyond 2^53, large texts, and later changes of the object', async () => {
  const run = recorder.run({ id: 'bytes' });
  const message = {
    role: 'user',
    content: `lone \ud800 NUL \0 \u{1F4FC} ${'long '.repeat(100_000)}`,
    big: 2n ** 60n,
    nested: { deep: [1, null, -0] },
  };
  const expected = structuredClone(message);
  run.rollout().trace().message(message);
  message.content = 'changed';
  message.nested.deep.push(2);
  const [node] = (await storedOf('bytes')).filter(({ type }) => type === 'node.appended');
  assert.deepEqual(node?.data['message'], expected);
});

test('callbacks end what they began, with the outcome; errors pass through and are recorded', async () => {
  const failure = new RangeError('says the test');
  await assert.rejects(
    recorder.run({ id: 'callbacks' }, async (run) => {
      await run.rollout({ id: 'good' }, async (rollout) => {
        const value = await rollout.trace({ id: 'a' }, async (trace) => {
          await sleep(1);
          assert.equal(currentTrace(), trace);
          await Promise.all([1, 2].map(async () => assert.equal(await Promise.resolve(currentTrace()), trace)));
          await rollout.trace({ id: 'b' }, (inner) => assert.equal(currentTrace(), inner));
          assert.equal(currentTrace(), trace);
          return 5;
        });
        assert.equal(value, 5);
        assert.equal(currentTrace(), undefined);
      });
      await run.rollout({ id: 'bad' }, (rollout) => rollout.trace({ id: 'c' }, () => Promise.reject(failure)));
    }),
    failure,
  );
  const ends = (await storedOf('callbacks')).filter(({ type }) => /\.ended|error/.test(type)).map(({ type, rollout, trace, data }) => [type, rollout, trace, data['ok'] ?? data['status'] ?? data['type']]); // prettier-ignore
  assert.deepEqual(ends, [
    ['trace.ended', 'good', 'b', true], ['trace.ended', 'good', 'a', true], ['rollout.ended', 'good', undefined, true],
    ['error.recorded', 'bad', 'c', 'RangeError'], ['trace.ended', 'bad', 'c', false],
    ['error.recorded', 'bad', undefined, 'RangeError'], ['rollout.ended', 'bad', undefined, false],
    ['error.recorded', undefined, undefined, 'RangeError'], ['run.ended', undefined, undefined, 'failed'],
  ]); // prettier-ignore
});

test('await using ends without claiming to know how it went', async () => {
  {
    await using run = recorder.run({ id: 'using' });
    await using rollout = run.rollout({ id: 'u' });
    await using trace = rollout.trace({ id: 'v' });
    trace.message({ role: 'user', content: 'x' });
    using _tool = trace.tool({ name: 't', id: 'open' });
  }
  const ends = (await storedOf('using')).filter(({ type }) => /\.ended|tool/.test(type)).map(({ type, data }) => [type, data['ok'] ?? data['status'] ?? data['toolCallId']]); // prettier-ignore
  assert.deepEqual(ends, [['tool.recorded', 'open'], ['trace.ended', undefined], ['rollout.ended', undefined], ['run.ended', 'completed']]); // prettier-ignore
});

test('a recorder has a run of its own, begun by its first rollout and ended with it', async () => {
  const own = createRecorder({ url: edge.url, run: 'own', project: 'tenant', producer: 'worker 7' });
  assert.match(own.producer, /^worker 7\/[0-9a-f-]{36}$/);
  await own.rollout({ env: 'sums', task: 'add-1', group: 'g' }, () => {});
  own.rollout({ id: 'second' }).cancel('user', 'enough');
  await own.close();
  await own.close();
  assert.throws(() => own.rollout(), { code: 'closed' });
  const events = (await storedOf('own')) as (Stored & { project: string })[];
  assert.ok(events.every(({ project }) => project === 'tenant'));
  assert.deepEqual(events.map(({ type }) => type), ['run.started', 'rollout.started', 'rollout.ended', 'rollout.started', 'rollout.cancelled', 'run.ended']); // prettier-ignore
  assert.deepEqual(timeless(events[1]?.data), { env: { id: 'sums' }, task: { key: 'add-1' }, group: { id: 'g' } });
});

test('what cannot be recorded is an error at the call, and takes no number', async () => {
  const before = recorder.counters.produced;
  const run = recorder.run({ id: 'errors' });
  const trace = run.rollout().trace();
  const cases: readonly (readonly [string, () => unknown])[] = [
    ['parent_not_before', () => trace.message({ role: 'user' }, { parent: 0 })],
    ['token_id_range', () => trace.message({ role: 'user' }, { tokens: { ids: [1.5] } })],
    ['token_id_range', () => trace.message({ role: 'user' }, { tokens: { ids: Int32Array.of(-1) } })],
    ['token_id_range', () => trace.message({ role: 'user' }, { tokens: { ids: [2 ** 31] } })],
    ['mask_length', () => trace.message({ role: 'user' }, { tokens: { ids: [1, 2], mask: [1] } })],
    ['invalid_value', () => trace.message({ role: 'user' }, { tokens: { ids: [1], mask: [2] } })],
    ['logprobs_length', () => trace.message({ role: 'user' }, { sampled: true, tokens: { ids: [1, 2], logprobs: [0] } })],
    ['wrong_type', () => trace.message({ role: 'user' }, { sampled: true, tokens: { ids: [1], logprobs: [null as unknown as number] } })],
    ['is_content_length', () => trace.message({ role: 'user' }, { tokens: { ids: [1], isContent: [] } })],
    ['stream_length', () => trace.message({ role: 'user' }, { sampled: true, tokens: { ids: [1], policyRuns: [{ length: 2, version: 0 }] } })],
    ['wrong_type', () => trace.message({ role: 'user', content: () => 1 })],
    ['wrong_type', () => trace.message({ role: 'user', content: new Map() })],
    ['too_deep', () => {
      const cycle: Record<string, unknown> = {};
      cycle['again'] = cycle;
      return trace.message({ role: 'user', content: cycle });
    }],
    ['event_too_large', () => trace.message({ role: 'user', content: 'x'.repeat(51_000_000) })],
    ['invalid_id', () => run.rollout({ id: '' })],
    ['id_too_long', () => run.rollout({ id: 'é'.repeat(129) })],
  ]; // prettier-ignore
  for (const [code, call] of cases) assert.throws(call, { code }, code);
  assert.equal(trace.nodes, 0);
  assert.equal(recorder.counters.produced, before + 3);
  assert.equal((await storedOf('errors')).length, 3);
});

test('options that cannot be are refused by name', () => {
  const url = edge.url;
  const wrong: readonly (readonly [RecorderOptions, string, RegExp])[] = [
    [{ url: 'nowhere' }, 'config_invalid', /url/],
    [{ url: 'ftp://x' }, 'config_invalid', /url/],
    [{ url, memoryBytes: 0 }, 'config_invalid', /memoryBytes/],
    [{ url, spool: '' }, 'config_invalid', /spool\.folder/],
    [{ url, spool: { folder: 'x', maxBytes: -1 } }, 'config_invalid', /spool\.maxBytes/],
    [{ url, producer: 'x'.repeat(200) }, 'id_too_long', /producer/],
    [{ url, spool: '/dev/null/spool' }, 'not_writable', /ENOTDIR/],
  ]; // prettier-ignore
  for (const [options, code, message] of wrong) assert.throws(() => createRecorder(options), { code, message });
});

test('errors in callbacks of the program stay there; rejected events come with their bytes', async () => {
  const seen: Rejected[] = [];
  const own = createRecorder({
    url: edge.url,
    lingerMs: 1,
    onRejected: (list) => {
      seen.push(...list);
      throw new Error('of the program');
    },
    onProblem: () => {
      throw new Error('of the program');
    },
  });
  const run = own.run({ id: 'callback errors' });
  run.metric('', 1);
  run.metric('fine', 1);
  await own.flush();
  const { produced, acked, rejected: count } = own.counters;
  assert.deepEqual([produced, acked, count], [3, 2, 1]);
  assert.deepEqual(seen.map(({ seq, code, field }) => [seq, code, field]), [[1, 'invalid_value', 'data.name']]); // prettier-ignore
  assert.ok(Buffer.from(seen[0]?.event as Uint8Array).includes('metric.recorded'));
  await own.close();
});
