import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { readEvent } from '../../events/read-event.ts';
import { exportEpisodes, lineWriter, writeFileWhole, type EpisodeSource } from './export-file.ts';
import { episodeOf } from './export-verifiers.ts';
import { sameJson } from './json-value.ts';
import { EPISODES, parsed } from './sample-records.ts';
import { episodeEvents } from './verifiers-v1.ts';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-export-'));
});
after(() => rm(folder, { recursive: true, force: true }));

let seq = 0;
function event(type: string, data: object, ids: object = { trace: 't' }): Uint8Array {
  const id = `00000000-0000-7000-8000-${String(seq++).padStart(12, '0')}`;
  return encodeEvent({ v: 1, id, type, run: 'r', rollout: 'o', ...ids, time: 1_000_000, data });
}
const START = (): Uint8Array => event('rollout.started', { env: { id: 'e' }, task: { data: { q: 1 } }, work: { type: 'train', step: 2 }, policyVersion: 1, policyVersionEnd: 2 }, {}); // prettier-ignore

test('a rollout recorded here becomes an episode with upstream defaults', async () => {
  const tokens = {
    ids: PackedArray.of(Uint32Array.of(5, 6)),
    mask: PackedArray.of(Uint8Array.of(0, 1)),
    logprobs: PackedArray.of(Float32Array.of(-0.2869)),
  };
  const found = await episodeOf('o', [
    START(),
    event('node.appended', { index: 1, parent: 0, role: 'assistant', message: { role: 'assistant', content: 'y' }, sampled: true, tokens }),
    event('node.appended', { index: 0, role: 'user', message: { role: 'user', content: 'x' }, sampled: false }),
    event('trace.started', { agent: { model: 'm', trainable: false } }),
    event('call.recorded', { index: 0, node: 1, time: { start: 500_000 } }),
    event('tool.recorded', { toolCallId: 'c', name: 'n' }),
    event('note.added', { scope: 'rollout', text: 'hm' }),
    event('reward.assigned', { scope: 'trace', name: 'a', score: 0, weight: 1 }),
    event('reward.assigned', { scope: 'trace', name: 'a', score: 1, weight: 1 }),
    event('reward.assigned', { scope: 'rollout', name: 'whole', score: null }, {}),
    event('error.recorded', { scope: 'rollout', type: 'E', message: 'm', statusCode: 500 }, {}),
    event('trace.ended', { ok: true, stopCondition: 'done', timing: { agent: { start: 1_500_000 }, modelSeconds: 2 } }),
    event('rollout.ended', { ok: true }, {}),
  ]);
  const span = { start: parsed('0.0'), end: parsed('0.0') };
  const want = {
    id: 'o', env: { id: 'e' }, task: { data: { q: 1 } }, run: { type: 'train', id: 'r', work: { type: 'train', step: 2, policy: { start: 1, end: 2 } } }, ok: true,
    errors: [{ type: 'E', message: 'm', status_code: 500 }],
    traces: [{
      version: 1, id: 't', verifiers: { version: '' }, task: { data: { q: 1 } }, agent: { config: {}, name: 'agent', trainable: false }, tools: [],
      nodes: [
        { message: { role: 'user', content: 'x' }, sampled: false, timestamp: parsed('1.0') },
        { parent: 0, message: { role: 'assistant', content: 'y' }, sampled: true, timestamp: parsed('1.0'), token_ids: [5, 6], mask: [false, true], is_content: [], logprobs: [-0.2869] },
      ],
      calls: [{ node: 1, time: { start: 0.5, end: parsed('0.0') } }],
      request_rewrites: [], response_rewrites: [], rewards: { a: { score: parsed('1.0'), weight: parsed('1.0') }, whole: { score: null } }, metrics: {}, info: {}, extra_usage: [],
      is_completed: true, ok: true, stop_condition: 'done', errors: [],
      timing: { start: parsed('0.0'), boot: span, setup: span, agent: { start: 1.5, end: parsed('0.0'), model: { duration: parsed('2.0') }, harness: { duration: parsed('0.0') } }, finalize: span, scoring: span },
    }],
  }; // prettier-ignore
  assert.deepEqual(found?.episode, want);
  const left = { 'note.added': 1, 'trace.started: agent.model': 1, 'tool.recorded': 1, 'reward.assigned: replaced by a later one': 1 };
  assert.deepEqual(Object.fromEntries(found?.left ?? []), left);
});

const said = (index: number, more: object = {}): Uint8Array =>
  event('node.appended', { index, parent: index === 0 ? null : index - 1, role: 'user', message: { role: 'user', content: `said ${index}` }, sampled: false, ...more }); // prettier-ignore

test('every field that does not come back is listed, by its event', async () => {
  const tokens = { ids: PackedArray.of(Uint32Array.of(5)), mask: PackedArray.of(Uint8Array.of(1)), policyRuns: [{ length: 1, version: 3 }] };
  const span = { start: 1_000_000, end: 2_000_000 };
  const toolCalls = [{ id: 'c1', name: 'add', arguments: '{}' }];
  const found = await episodeOf('o', [
    event('rollout.started', { env: { id: 'e', args: { n: 1 } }, task: { key: 'k' }, group: { id: 'g', size: 4 }, attempt: 2, started: 5_000_000 }, {}),
    event('trace.started', { agent: { name: 'a' }, extra: { own: 1 } }),
    said(0),
    event('node.appended', { index: 1, parent: 0, role: 'assistant', message: { role: 'assistant', content: '', tool_calls: toolCalls }, sampled: true, tokens, forkReason: 'retry', partial: true }),
    event('node.appended', { index: 2, parent: 1, role: 'tool', message: { role: 'tool', tool_call_id: 'c1', content: '3' }, sampled: false }),
    event('call.recorded', { index: 0, node: 1, model: 'm', time: span, firstToken: 1_500_000, stream: true, requestDigest: 'd' }),
    event('tool.recorded', { toolCallId: 'c1', name: 'add', node: 1, resultNode: 2, time: span }),
    event('reward.assigned', { scope: 'trace', name: 'x', score: 1, weight: 0.5, source: { kind: 'human', name: 'me' } }),
    event('reward.assigned', { scope: 'rollout', name: 'y', score: 1, source: { kind: 'code' } }, {}),
    event('reward.assigned', { scope: 'node', node: 1, name: 'z', score: 1 }),
    event('reference.scored', { node: 1, source: 't', logprobs: PackedArray.of(Float32Array.of(-1)) }),
    event('trace.ended', { ok: true }),
    event('rollout.ended', { ok: true, stopCondition: 'done' }, {}),
  ]);
  assert.deepEqual(Object.fromEntries(found?.left ?? []), {
    'call.recorded: firstToken': 1, 'call.recorded: requestDigest': 1, 'call.recorded: stream': 1, 'node.appended: forkReason': 1, 'node.appended: partial': 1,
    'node.appended: tokens.policyRuns': 1, 'reference.scored': 1, 'reward.assigned': 1, 'reward.assigned: source': 2, 'rollout.ended: stopCondition': 1, 'rollout.started: attempt': 1,
    'rollout.started: env.args': 1, 'rollout.started: group.size': 1, 'rollout.started: started': 1, 'tool.recorded: time': 1, 'trace.started: extra': 1,
  });
}); // prettier-ignore

test('edges inside a trace come back, those between traces are counted', async () => {
  const edge = (from: object, to: object): Uint8Array => event('link.added', { from, to, type: 'compaction' });
  const found = await episodeOf('o', [
    START(), event('trace.started', { agent: {} }), said(0), said(1), edge({ trace: 't', node: 0 }, { trace: 't', node: 1 }), edge({ trace: 'u', node: 0 }, { trace: 't', node: 1 }),
  ]); // prettier-ignore
  assert.deepEqual(Object.fromEntries(found?.left ?? []), { 'link.added': 1 });
  const again = episodeEvents(parsed(JSON.stringify(found?.episode)));
  assert.ok(again.ok);
  const links = again.value.events.filter(({ type }) => type === 'link.added').map(({ slice }) => readEvent(slice));
  assert.deepEqual(links.map((link) => link.ok && link.value.data), [{ from: { trace: 't', node: 0 }, to: { trace: 't', node: 1 }, type: 'compaction' }]); // prettier-ignore
});

test('of events that say the same thing, the first counts for nodes and calls; a value of the trace goes before one of the rollout', async () => {
  const found = await episodeOf('o', [
    START(), event('trace.started', { agent: {} }), said(0), said(0, { message: { role: 'user', content: 'late' } }),
    event('call.recorded', { index: 0, model: 'first' }), event('call.recorded', { index: 0, model: 'late' }),
    event('metric.recorded', { scope: 'trace', name: 'm', value: 1 }), event('metric.recorded', { scope: 'rollout', name: 'm', value: 2 }, {}),
  ]); // prettier-ignore
  const [trace] = (found?.episode['traces'] ?? []) as {
    nodes: { message: { content: string } }[];
    calls: { model: string }[];
    metrics: object;
  }[];
  assert.deepEqual([trace?.nodes.map((node) => node.message.content), trace?.calls.map((call) => call.model)], [['said 0'], ['first']]);
  assert.deepEqual(trace?.metrics, { m: parsed('1.0') });
  assert.equal(found?.left.get('metric.recorded'), 1);
});

test('of an imported episode nothing is left', async () => {
  for (const [name, text] of EPISODES) {
    const made = episodeEvents(parsed(text));
    assert.ok(made.ok);
    const found = await episodeOf(made.value.rollout, made.value.events.map(({ slice }) => slice)); // prettier-ignore
    assert.deepEqual(Object.fromEntries(found?.left ?? []), {}, name);
  }
});

test('values about a rollout with several traces have no place and are counted', async () => {
  const started = ['t', 'u'].map((trace) => event('trace.started', { agent: {} }, { trace }));
  const found = await episodeOf('o', [START(), ...started, event('metric.recorded', { scope: 'rollout', name: 'm', value: 1 }, {})]);
  assert.deepEqual([...(found?.left ?? [])], [['metric.recorded', 1]]);
});

test('a rollout that is not over is an episode that is not ok; one without a start is none; a broken slice is an error', async () => {
  const open = await episodeOf('o', [START(), event('trace.started', { agent: {} })]);
  assert.equal(open?.episode['ok'], false);
  const traces = (open?.episode['traces'] ?? []) as { is_completed: boolean }[];
  assert.deepEqual(
    traces.map((t) => t.is_completed),
    [false],
  );
  assert.equal(await episodeOf('o', [event('trace.started', { agent: {} })]), null);
  await assert.rejects(episodeOf('o', [START().subarray(0, 20)]), { code: 'invalid_cbor' });
});

/** A source over the sample episodes. */
function samples(): EpisodeSource {
  const rollouts = new Map(
    EPISODES.map(([, text]) => {
      const made = episodeEvents(parsed(text));
      assert.ok(made.ok);
      return [made.value.rollout, made.value.events.map((e) => e.slice)] as const;
    }),
  );
  rollouts.set('unfinished', [event('trace.started', { agent: {} })]);
  return {
    async *rollouts(_project, run) {
      if (run === 'any') yield* rollouts.keys();
    },
    async *rolloutEvents(_project, _run, rollout) {
      yield* rollouts.get(rollout) ?? [];
    },
  };
}
const wanted = { project: 'default', run: 'any', signal: new AbortController().signal };

test('a file holds one episode per line, equal to what was imported, and appears whole or not at all', async () => {
  const path = join(folder, 'out.jsonl');
  const report = await writeFileWhole(path, (writeLine) => exportEpisodes(samples(), wanted, writeLine));
  const text = await readFile(path, 'utf8');
  assert.deepEqual([report.episodes, report.bytes, report.incomplete], [3, Buffer.byteLength(text), ['unfinished']]);
  const lines = text.trimEnd().split('\n');
  for (const [i, [name, original]] of EPISODES.entries()) assert.ok(sameJson(parsed(lines[i] ?? ''), parsed(original)), name);

  await writeFile(path, 'older');
  await assert.rejects(
    writeFileWhole(path, (writeLine) => exportEpisodes(samples(), { ...wanted, run: 'none' }, writeLine)),
    { code: 'not_found' },
  );
  assert.equal(await readFile(path, 'utf8'), 'older');
  assert.deepEqual(await readdir(folder), ['out.jsonl']);
  await assert.rejects(
    writeFileWhole(join(folder, 'no', 'x'), async () => 1),
    { code: 'not_writable' },
  );
});

test('only chosen rollouts; an abort; a reader that goes away', async () => {
  const lines: string[] = [];
  const take = async (line: Uint8Array): Promise<void> => void lines.push(Buffer.from(line).toString());
  await exportEpisodes(samples(), { ...wanted, rollouts: ['e2'] }, take);
  assert.equal(lines.length, 1);
  const stop = new AbortController();
  const first = exportEpisodes(samples(), { ...wanted, signal: stop.signal, onEpisode: () => stop.abort() }, take);
  await assert.rejects(first, { name: 'AbortError' });
  const stream = new PassThrough();
  const writeLine = lineWriter(stream);
  stream.destroy(new Error('gone'));
  await new Promise((resolve) => stream.once('close', resolve));
  await assert.rejects(writeLine(Buffer.from('x')), { code: 'aborted' });
});
