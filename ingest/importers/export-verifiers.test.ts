import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { PackedArray } from '../../events/packed-array.ts';
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
  assert.deepEqual([...(found?.left ?? [])], [['note.added', 1]]);
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
