/** A small world for tests: every event type at least once, with the values that break careless stores. */
import { seededRandom } from '../../../base/random.ts';
import { uuidV7 } from '../../../base/uuid.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import { contentHash } from '../../../events/content-hash.ts';
import { PackedArray } from '../../../events/packed-array.ts';
import { readEvent } from '../../../events/read-event.ts';
import { EVENT_TYPES, type EventType, type Topic } from '../../../events/registry.ts';
import type { ListedRow } from '../../../events/row-list.ts';
import type { ColumnStore } from '../column-store.ts';
import { refreshSummaries } from '../summaries.ts';
import { createBlock, type Block } from './block.ts';
import { ledger, NO_REASON } from './ledger.ts';
import { project } from './project.ts';
import type { FeedLists, StoredEvent } from './stored-event.ts';
import type { RolloutKey } from './touched.ts';

export type Draft = { readonly type: EventType; readonly data: object; readonly time?: number; readonly lists?: FeedLists } & Partial<
  Record<'run' | 'group' | 'rollout' | 'trace', string>
>;

const T0 = 1_750_000_000_000_000;
const u32 = (...n: number[]) => PackedArray.of(new Uint32Array(n));
const u8 = (...n: number[]) => PackedArray.of(new Uint8Array(n));
const f32 = (...n: number[]) => PackedArray.of(new Float32Array(n));

/** A draft at its place in the log, as the projector sees it. Throws when the draft is no legal event. */
export function storeEvent(draft: Draft, place: { project: string; partition: number; offset: number; seed: number }): StoredEvent {
  const random = seededRandom(place.seed);
  const time = T0 + place.seed * 1000;
  const id = uuidV7({ nowMicros: () => time, monotonicMs: () => 0, sleep: async () => {} }, random);
  const { lists, ...event } = draft;
  const slice = encodeEvent({ v: 1, id, project: place.project, time, ...event });
  const read = readEvent(slice);
  if (!read.ok) throw new Error(`${draft.type}: ${read.error.message}`);
  const topic: Topic = EVENT_TYPES[draft.type].topic;
  return { event: read.value, slice, topic, partition: place.partition, offset: place.offset, hash: contentHash(slice), lists };
}

/** Projects and inserts events as one block. */
export async function insertEvents(store: ColumnStore, events: readonly StoredEvent[], block: Block = createBlock()): Promise<Block> {
  for (const stored of events) {
    project(stored, block);
    ledger(stored, 'stored', NO_REASON, block);
  }
  for (const table of block.tables) {
    if (table.rows > 0) await store.insertNative(table.name, table.columnNames, table.encode());
  }
  return block;
}

const R = { run: 'run-1', group: 'group-1', rollout: 'rollout-1' };
const A = { ...R, trace: 'trace-1' };
const B = { run: 'run-1', group: 'group-1', rollout: 'rollout-2', trace: 'trace-2' };
const FEED = { feed: 'feed-1', timeline: 0 };
const batch = (n: number) => ({ ...FEED, n, batchId: `batch-${n}` });

const listed = (rollout: string, trace: string, leaf: number): ListedRow => ({
  rowId: `run-1/${rollout}/${trace}/${leaf}`, run: 'run-1', rollout, trace, leaf, group: 'group-1', env: 'wiki', taskKey: 'q7', agent: 'solver', status: 'completed',
  seqLen: 3, lossMask: new Uint8Array([0, 1, 1]), advantage: 0.25, rlWeights: new Float32Array([0, 1, 0.5]), ceWeights: null, refKlWeights: null, temperature: 1, reward: 0.5,
  policyVersionMin: 4, policyVersionMax: 5, staleness: 1, logOffset: [0, 7], nodes: [0, leaf], multimodal: false, members: { rl: 2, ce: 0, refKl: 0 }, hasReference: false,
  contentHash: 'a'.repeat(64), signalHash: 'b'.repeat(64),
}); // prettier-ignore
const LISTS: FeedLists = {
  rows: [
    listed('rollout-1', 'trace-1', 2),
    { ...listed('rollout-1', 'trace-1', 3), advantage: null, rlWeights: null, reward: null, staleness: null },
  ],
  excluded: [
    {
      run: 'run-1',
      group: 'group-1',
      rollout: 'rollout-2',
      trace: 'trace-2',
      leaf: null,
      reason: 'unscored',
      message: 'no score',
      staleness: null,
      length: 3,
    },
  ],
  places: [],
};
const PLACES: FeedLists = {
  rows: [],
  excluded: [],
  places: [
    { rowId: LISTS.rows[0]?.rowId ?? '', rank: 1, microBatch: 0, position: 0 },
    { rowId: LISTS.rows[1]?.rowId ?? '', rank: 0, microBatch: 2, position: 1 },
  ],
};

/** In log order; all of one rollout lie in one partition. */
export const WORLD: readonly Draft[] = [
  { type: 'run.started', run: 'run-1', data: { kind: 'train', name: 'first', model: 'm', config: { lr: 1e-6, big: 2n ** 60n }, envs: [{ id: 'wiki' }], tags: ['a', 'b'] } },
  { type: 'rollout.started', ...R, data: { env: { id: 'wiki', name: 'Wiki' }, task: { type: 'qa', key: 'q7', hash: 'h', data: { prompt: 'p' } }, group: { id: 'group-1', size: 2 }, work: { type: 'train', step: 3 }, policyVersion: 4, attempt: 0, started: T0 } },
  { type: 'rollout.started', run: 'run-1', rollout: 'rollout-2', data: { env: { id: 'wiki' }, task: { key: 'q7' }, group: { id: 'group-1', size: 2 }, parentRollout: 'rollout-1', forkNode: { trace: 'trace-1', index: 1 } } },
  { type: 'trace.started', ...A, data: { agent: { name: 'solver', model: 'm', trainable: true, config: {} }, tools: [{ name: 'search' }], started: T0 } },
  { type: 'trace.started', ...B, data: { agent: { name: 'judge', trainable: false } } },
  { type: 'node.appended', ...A, data: { index: 0, parent: null, role: 'user', message: { role: 'user', content: 'find "it" / now\n\u2028\u0000é🦜 \\' }, sampled: false, tokens: { ids: u32(1, 2, 2_147_483_647), mask: u8(0, 0, 0), isContent: u8(0, 1, 1) } } },
  { type: 'node.appended', ...A, data: { index: 1, parent: 0, role: 'assistant', message: { reasoning_content: 'hm / "so"', role: 'assistant', content: 'done', tool_calls: [{ id: 'c1', type: 'function', function: { name: 'search', arguments: '{"q": 1}' } }] }, sampled: true, tokens: { ids: u32(9, 10, 11), mask: u8(0, 1, 1), logprobs: f32(-0.25, Number.NaN), referenceLogprobs: f32(-Infinity, -0), advantages: f32(0.5, 0.5), lossWeights: { rl: f32(0, 1, 1), ce: f32(0, 0, 0) }, policyRuns: [{ length: 1, version: 4 }, { length: 1, version: 5 }] }, call: 0, extra: { k: [1, null] }, strange: 2n ** 63n } },
  { type: 'node.appended', ...A, data: { index: 2, parent: 1, role: 'tool', message: { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'part one' }, { type: 'image_url', image_url: { url: 'x' } }, { type: 'text', text: 'part two' }] }, sampled: false, tokens: { ids: u32(), mask: u8() } } },
  { type: 'node.appended', ...A, data: { index: 3, parent: 0, role: 'assistant', message: { role: 'assistant', content: 'lone \ud800 surrogate' }, sampled: true, policyVersion: 5, forkReason: 'retry', partial: true } },
  { type: 'node.appended', ...B, data: { index: 0, role: 'assistant', sampled: true, message: null } },
  { type: 'call.recorded', ...A, data: { index: 0, node: 1, model: 'm', endpoint: '/v1/chat/completions', dialect: 'openai', sampling: { temperature: 1.5 }, request: { messages: ['x'] }, response: { id: 'r' }, finishReason: 'tool_calls', usage: { promptTokens: 3, completionTokens: 2, cachedTokens: 0, cost: 0.125 }, time: { start: T0, end: T0 + 5 }, firstToken: T0 + 2, policyVersion: 4, policyVersionEnd: 5, stream: true } },
  { type: 'call.recorded', ...A, data: { index: 1, model: 'm', finishReason: 'length', usage: { cost: 0.1 }, error: { type: 'ProviderError', message: 'no', statusCode: 503 }, retryOf: 0 } },
  { type: 'call.recorded', ...B, data: { index: 0, finishReason: 'stop', usage: { promptTokens: 7, completionTokens: 8 } } },
  { type: 'tool.recorded', ...A, data: { toolCallId: 'c1', node: 1, name: 'search', time: { start: T0, end: T0 + 1 }, resultNode: 2, error: { type: 'ToolsetError', message: 'late' } } },
  { type: 'tool.recorded', ...A, data: { toolCallId: 'c1', name: 'search' } },
  { type: 'link.added', run: 'run-1', rollout: 'rollout-1', data: { from: { trace: 'trace-1', node: 3 }, to: { trace: 'trace-1' }, type: 'continuation' } },
  { type: 'reward.assigned', ...A, data: { scope: 'trace', name: 'correct', score: 0.1, weight: 1, source: { kind: 'code', name: 'checker', version: '1' } } },
  { type: 'reward.assigned', ...A, data: { scope: 'trace', name: 'style', score: 0.2 } },
  { type: 'reward.assigned', ...A, data: { scope: 'trace', name: 'unused', score: null, weight: 0 } },
  { type: 'reward.assigned', ...R, data: { scope: 'rollout', name: 'bonus', score: 0.7, weight: 2 } },
  { type: 'reward.assigned', ...A, data: { scope: 'node', node: 1, name: 'correct', score: 100 } },
  { type: 'reward.assigned', ...A, data: { scope: 'trace', name: 'correct', score: 1, weight: 1 } },
  { type: 'reward.assigned', ...B, data: { scope: 'trace', name: 'correct', score: 1 } },
  { type: 'reward.assigned', ...B, data: { scope: 'trace', name: 'correct', score: null } },
  { type: 'metric.recorded', ...A, data: { scope: 'trace', name: 'tps', value: Infinity } },
  { type: 'metric.recorded', run: 'run-1', data: { scope: 'run', name: 'loss', value: Number.NaN } },
  { type: 'metric.recorded', run: 'run-1', data: { scope: 'run', name: 'loss', value: null } },
  { type: 'error.recorded', ...B, data: { scope: 'trace', type: 'SandboxError', message: 'first' } },
  { type: 'error.recorded', ...B, data: { scope: 'trace', type: 'ToolsetError', message: 'second', statusCode: -1, traceback: 'at' } },
  { type: 'note.added', ...R, data: { scope: 'rollout', label: 'good', text: 'seen', author: 'me' } },
  { type: 'trace.ended', ...A, data: { ok: true, stopCondition: 'agent_completed', counts: { nodes: 4, calls: 2 }, ended: T0 + 9 } },
  { type: 'trace.ended', ...B, data: { ok: false, stopCondition: 'max_turns' } },
  { type: 'rollout.ended', ...R, data: { ok: true, counts: { traces: 1 }, ended: T0 + 10 } },
  { type: 'rollout.cancelled', run: 'run-1', rollout: 'rollout-2', data: { reason: 'stale' } },
  { type: 'group.sealed', run: 'run-1', group: 'group-1', data: { size: 2, reason: 'complete' } },
  { type: 'policy.published', run: 'run-1', data: { version: 5, step: 5, uri: 's3://w/5', trainer: 't' } },
  { type: 'policy.published', run: 'run-1', data: { version: 5, step: 5, uri: 's3://w/5b', trainer: 't' } },
  { type: 'trainer.stepped', run: 'run-1', data: { step: 5, feed: 'feed-1', batch: 'batch-1', metrics: { loss: 0.5, kl: Number.NaN }, timeline: 0 } },
  { type: 'reference.scored', ...A, data: { node: 1, source: 'teacher', version: '2', logprobs: f32(-1, -2) } },
  { type: 'trainer.annotated', ...A, data: { leaf: 2, step: 5, feed: 'feed-1', streams: { trainerLogprobs: f32(-1, -2), isMasked: u8(0, 1) } } },
  { type: 'run.ended', run: 'run-1', data: { status: 'completed', metrics: { best: 1 } } },
  { type: 'project.retention_set', data: { days: 30 } },
  { type: 'run.deleted', run: 'run-gone', data: { reason: 'asked' } },
  { type: 'feed.created', run: 'run-1', data: { ...FEED, spec: { batch: 2 }, specHash: 's' } },
  { type: 'group.ready', run: 'run-1', data: { ...FEED, group: 'group-1', members: [{ rollout: 'rollout-1', trace: 'trace-1' }] } },
  { type: 'group.closed', run: 'run-1', data: { ...FEED, group: 'group-2', outcome: 'failed', reason: 'deadline', rollouts: [{ rollout: 'rollout-9', length: 4 }] } },
  { type: 'batch.cut', run: 'run-1', data: { ...batch(1), algorithm: 'grpo', policyVersion: 4, counts: { rows: 2 } }, lists: LISTS },
  { type: 'batch.leased', run: 'run-1', data: { ...batch(1), holder: 'h', planId: 'p', step: 1, expires: T0 }, lists: PLACES },
  { type: 'batch.committed', run: 'run-1', data: { ...batch(1), holder: 'h', step: 1 } },
  { type: 'batch.cut', run: 'run-1', data: { ...batch(2), algorithm: 'grpo' } },
  { type: 'batch.released', run: 'run-1', data: { ...batch(2), holder: 'h', reason: 'crash' } },
  { type: 'feed.checkpointed', run: 'run-1', data: { ...batch(1), uri: 'c' } },
  { type: 'feed.rewound', run: 'run-1', data: { feed: 'feed-1', timeline: 1, from: 2, to: 1, mode: 'replay' } },
  { type: 'feed.deleted', data: { feed: 'feed-2', timeline: 0, reason: 'over' } },
  { type: 'sample.dropped', run: 'run-1', data: { ...FEED, n: 1, rollout: 'rollout-2', trace: 'trace-2', leaf: 0, reason: 'stale', staleness: 9, length: 4 } },
]; // prettier-ignore

/** The log of the world: partition 0 for everything of the events topic, offsets in the order of `drafts`. */
export function storedWorld(project: string, drafts: readonly Draft[] = WORLD): StoredEvent[] {
  const next = { events: 0, feeds: 0 };
  return drafts.map((draft, i) => {
    const known = WORLD.indexOf(draft);
    const seed = known < 0 ? WORLD.length + i + 1 : known + 1;
    return storeEvent(draft, { project, partition: 0, offset: next[EVENT_TYPES[draft.type].topic]++, seed });
  });
}

/** Sum of the stored positions. */
export async function storedVersion(store: ColumnStore): Promise<number> {
  const [row] = await store.rows<{ version: string }>(
    'SELECT toUInt64(sum(next)) AS version FROM (SELECT max(_offset) + 1 AS next FROM log_index GROUP BY _partition)',
  );
  return Number(row?.version ?? 0);
}

/** Computes summaries as the projector does after a block. */
export async function summarise(store: ColumnStore, touched: { readonly rollouts: readonly RolloutKey[] }): Promise<void> {
  await refreshSummaries(store, touched, { version: await storedVersion(store) });
}
