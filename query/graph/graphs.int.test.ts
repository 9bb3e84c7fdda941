/** Windows, skeletons and tokens of one trace over a real log, projector and engine. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import Fastify, { type FastifyInstance } from 'fastify';
import { PackedArray } from '../../events/packed-array.ts';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { graphRoutes } from '../routes/graphs.ts';
import { SKELETON_FLAGS } from './skeleton.ts';

let world: TestWorld;
let app: FastifyInstance;

const ids = { run: "run'1/?", rollout: 'r/1 %', trace: 't?1/\\"#\'💥' };
const u32 = (...values: number[]): object => PackedArray.of(Uint32Array.from(values));
const u8 = (...values: number[]): object => PackedArray.of(Uint8Array.from(values));
const f32 = (...values: number[]): object => PackedArray.of(Float32Array.from(values));

function node(index: number, parent: number | null, role: string, tokens?: object, more: object = {}): Draft {
  return {
    type: 'node.appended',
    ...ids,
    data: { index, parent, role, sampled: role === 'assistant', message: { role, content: `text ${index}` }, ...(tokens ? { tokens } : {}), ...more },
  };
} // prettier-ignore

/**  0 - 1 - 2 - 3      (2 and 4 fork from 1; 5 hangs below 4; 6 is a second root) */
const EVENTS: Draft[] = [
  node(0, null, 'system', { ids: u32(10, 11), mask: u8(0, 0) }),
  node(1, 0, 'user', { ids: u32(12), mask: u8(0) }),
  node(2, 1, 'assistant', { ids: u32(20, 21, 22), mask: u8(0, 1, 1), logprobs: f32(-0.5, NaN), isContent: u8(0, 1, 1), policyRuns: [{ length: 1, version: 3 }, { length: 1, version: 4 }] }, { policyVersion: 4 }),
  node(3, 2, 'user', { ids: u32(30, 31), mask: u8(0, 0) }),
  node(4, 1, 'assistant', { ids: u32(40), mask: u8(1), logprobs: f32(-0.25) }, { policyVersion: 7, forkReason: 'resample' }),
  node(5, 4, 'user'),
  node(6, null, 'user'),
  { type: 'reference.scored', ...ids, data: { node: 2, source: 'old', logprobs: f32(-9, -9) } },
  { type: 'reference.scored', ...ids, data: { node: 2, source: 'teacher', logprobs: f32(-1, -2) } },
  { type: 'trainer.annotated', ...ids, data: { leaf: 3, feed: 'compact', streams: { entropies: f32(1.5, 2.5) } } },
  { type: 'trainer.annotated', ...ids, data: { leaf: 3, feed: 'cut', streams: { isMasked: u8(1, 1, 1, 1, 0) } } },
  { type: 'trainer.annotated', ...ids, data: { leaf: 3, step: 8, feed: 'f', streams: { trainerLogprobs: f32(0, 0, 0, 0, -0.4, -0.6, 0, 0) } } },
  { type: 'trainer.annotated', ...ids, data: { leaf: 4, step: 9, streams: { entropies: f32(1, 2, 3, 4, 5, 6, 7, 8, 9) } } },
]; // prettier-ignore

before(async () => {
  world = await openTestWorld();
  await world.write(EVENTS);
  app = Fastify();
  await app.register(graphRoutes, { store: world.store });
});
after(async () => {
  await app?.close();
  await world?.close();
});

const TRACE = `/v1/traces/${encodeURIComponent(ids.trace)}`;

async function get<T>(path: string, query: Record<string, string> = {}, status = 200): Promise<T> {
  const answer = await app.inject({ method: 'GET', url: `${TRACE}/${path}?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, status, answer.body);
  return answer.json();
}
async function arrow(path: string, query: Record<string, string> = {}): Promise<Record<string, unknown>[]> {
  const answer = await app.inject({ method: 'GET', url: `${TRACE}/${path}?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, 200, answer.body);
  return tableFromIPC(answer.rawPayload).toArray().map((row: { toJSON(): Record<string, unknown> }) => row.toJSON()); // prettier-ignore
}

type Window = { nodes: { index: number; children: number; text: string }[]; next: number | null; size: number };
const indexes = (window: Window): number[] => window.nodes.map((each) => each.index);

test('windows: around a node, its children, the path to the root', async () => {
  const near = await get<Window>('graph', { around: '1' });
  assert.deepEqual(indexes(near), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(near.nodes.map((each) => each.children), [1, 2, 1, 0, 1, 0]); // prettier-ignore
  assert.equal(near.size, 7);
  assert.deepEqual(indexes(await get('graph', { around: '3', limit: '3' })), [2, 3]);
  const first = await get<Window>('graph', { children: '1', limit: '1' });
  assert.deepEqual([indexes(first), first.next], [[2], 2]);
  const second = await get<Window>('graph', { children: '1', limit: '1', after: '2' });
  assert.deepEqual([indexes(second), second.next], [[4], null]);
  const path = await get<Window>('graph', { path: '3', limit: '2' });
  assert.deepEqual([indexes(path), path.next], [[2, 3], 1]);
  assert.deepEqual(indexes(await get('graph', { path: '1' })), [0, 1]);
  await get('graph', { path: '99' }, 404);
  await get('graph', { path: '1', around: '1' }, 400);
});

test('the skeleton by index range, as Arrow', async () => {
  const rows = await arrow('skeleton', { from: '1', to: '6' });
  assert.deepEqual(rows.map((row) => [row['index'], row['parent'], row['role'], row['flags'], row['tokens'], row['fork_reason']]), [
    [1, 0, 'user', SKELETON_FLAGS.hasTokens, 1, null],
    [2, 1, 'assistant', SKELETON_FLAGS.hasTokens + SKELETON_FLAGS.sampled, 3, null],
    [3, 2, 'user', SKELETON_FLAGS.hasTokens, 2, null],
    [4, 1, 'assistant', SKELETON_FLAGS.hasTokens + SKELETON_FLAGS.sampled, 1, 'resample'],
    [5, 4, 'user', 0, null, null],
  ]); // prettier-ignore
  assert.equal(typeof rows[0]?.['time'], 'bigint');
});

const ALL =
  'position,node,token_id,mask,is_content,logprob,reference_logprob,teacher_logprob,trainer_logprob,entropy,is_masked,policy_version';

test('tokens of a branch with what trainer and teacher said, joined by position', async () => {
  const answer = await get<{ tokens: number; segments: object[]; annotation: object; columns: Record<string, unknown[]> }>('tokens', { leaf: '3', columns: ALL });
  assert.equal(answer.tokens, 8);
  assert.deepEqual(answer.segments, [{ node: 0, from: 0, to: 2 }, { node: 1, from: 2, to: 3 }, { node: 2, from: 3, to: 6 }, { node: 3, from: 6, to: 8 }]);
  assert.deepEqual(answer.annotation, { step: 8, feed: 'f', alignments: { trainer_logprob: 'token', entropy: 'absent', is_masked: 'absent' } });
  const float = (value: number): number => Math.fround(value);
  assert.deepEqual(answer.columns, {
    position: [0, 1, 2, 3, 4, 5, 6, 7],
    node: [0, 0, 1, 2, 2, 2, 3, 3],
    token_id: [10, 11, 12, 20, 21, 22, 30, 31],
    mask: [0, 0, 0, 0, 1, 1, 0, 0],
    is_content: [null, null, null, 0, 1, 1, null, null],
    logprob: [null, null, null, null, -0.5, { $float: 'NaN' }, null, null],
    reference_logprob: [null, null, null, null, null, null, null, null],
    teacher_logprob: [null, null, null, null, -1, -2, null, null],
    trainer_logprob: [0, 0, 0, 0, float(-0.4), float(-0.6), 0, 0],
    entropy: [null, null, null, null, null, null, null, null],
    is_masked: [null, null, null, null, null, null, null, null],
    policy_version: [null, null, null, null, '3', '4', null, null],
  });
}); // prettier-ignore

test('annotations lie along the branch by token, by sampled token, or as far as they go', async () => {
  type Answer = { columns: Record<string, unknown[]>; annotation: { alignments: Record<string, string> } };
  const compact = await get<Answer>('tokens', { leaf: '3', columns: 'entropy', feed: 'compact' });
  assert.deepEqual(compact.columns['entropy'], [null, null, null, null, 1.5, 2.5, null, null]);
  assert.equal(compact.annotation.alignments['entropy'], 'sampled');
  for (let from = 0; from <= 8; from++) {
    const part = await get<Answer>('tokens', { leaf: '3', columns: 'entropy', feed: 'compact', from: String(from) });
    assert.deepEqual(part.columns['entropy'], compact.columns['entropy']?.slice(from));
  }
  const cut = await get<Answer>('tokens', { leaf: '3', columns: 'is_masked', feed: 'cut' });
  assert.deepEqual(cut.columns['is_masked'], [1, 1, 1, 1, 0, null, null, null]);
  assert.equal(cut.annotation.alignments['is_masked'], 'prefix');
});

test('every range and its Arrow form equal the whole', async () => {
  const whole = await arrow('tokens', { leaf: '3', columns: ALL, format: 'arrow' });
  for (let from = 0; from <= 8; from++) {
    for (let to = from; to <= 8; to++) {
      assert.deepEqual(await arrow('tokens', { leaf: '3', columns: ALL, format: 'arrow', from: String(from), to: String(to) }), whole.slice(from, to));
    }
  }
  const teacher = await arrow('tokens', { leaf: '3', columns: 'teacher_logprob', teacher: 'old', from: '4', to: '5', format: 'arrow' });
  assert.deepEqual(teacher, [{ teacher_logprob: -9 }]);
}); // prettier-ignore

test('a stream longer than its branch is not laid over it, and wrong requests are named', async () => {
  const answer = await get<{ annotation: object; columns: Record<string, unknown[]> }>('tokens', { leaf: '4', columns: 'entropy' });
  assert.deepEqual(answer.annotation, { step: 9, feed: null, alignments: { trainer_logprob: 'absent', entropy: 'mismatch', is_masked: 'absent' } });
  assert.deepEqual(answer.columns['entropy'], [null, null, null, null]);
  await get('tokens', { leaf: '3', columns: 'nothing' }, 422);
  await get('tokens', { leaf: '3', from: '9' }, 400);
  await get('tokens', { leaf: '77' }, 404);
  await get('tokens', {}, 400);
}); // prettier-ignore

test('a window of as many nodes as may be asked for, of the largest indexes, opens like any other', async () => {
  const long = { run: 'run-1', rollout: 'r/2', trace: 'long' };
  const first = 4_000_000_000;
  const nodes = Array.from({ length: 2_100 }, (_, at) => ({ ...node(first + at, at === 0 ? null : first + at - 1, 'user', { ids: u32(at), mask: u8(0) }), ...long }));
  await world.write(nodes);
  const last = first + 2_099;
  const window = async (want: string): Promise<{ nodes: { index: number; text: string }[]; size: number; next: number | null }> => {
    const answer = await app.inject({ url: `/v1/traces/long/graph?${want}&limit=2000` });
    assert.equal(answer.statusCode, 200, answer.body);
    return answer.json();
  };
  for (const want of [`path=${last}`, `around=${first + 1_000}`]) {
    const { nodes: found, size } = await window(want);
    assert.equal(size, 2_100);
    assert.equal(found.length, 2_000);
    assert.deepEqual(found.map((each) => each.text), found.map((each) => `text ${each.index}`));
    assert.deepEqual(found.map((each) => each.index), found.map((each) => each.index).toSorted((a, b) => a - b));
  }
  assert.equal((await window(`path=${last}`)).next, first + 99);
  const tokens = await app.inject({ url: `/v1/traces/long/tokens?leaf=${last}&columns=token_id` });
  assert.deepEqual((tokens.json() as { columns: { token_id: number[] } }).columns.token_id, Array.from({ length: 2_100 }, (_, at) => at));
}); // prettier-ignore
