import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { metadataOfRun, rowOfRollout } from './export-verifiers-v0.ts';
import { isRecord, sameJson, type Json, type JsonRecord } from './json-value.ts';
import { jsonReader } from './read-json.ts';
import { parsed, ROWS } from './sample-records.ts';
import { columnOf, jsonText } from './verifiers-v0-row.ts';
import { v0Run } from './verifiers-v0-run.ts';
import { rowEvents, type ImportedRow } from './verifiers-v0.ts';

const SHARED = join(import.meta.dirname, '../../../shared');
const skip = existsSync(join(SHARED, 'data/verifiers')) ? false : 'the collected files (../shared/data) are not here';

function imported(row: Json, metadata: JsonRecord | null = null): ImportedRow {
  const bytes = Buffer.from(jsonText(row));
  const result = rowEvents(row, { number: 1, bytes, id: 'o' }, v0Run({ value: row as JsonRecord, bytes }, metadata, { run: 'r' }));
  assert.ok(result.ok, result.ok ? '' : result.error.message);
  return result.value;
}
const slices = (row: ImportedRow): Uint8Array[] => row.events.map((event) => event.slice);

/** A row as it must come back: columns that hold JSON as text are decoded. */
function decoded(row: JsonRecord): JsonRecord {
  return Object.fromEntries<Json>(Object.entries(row).map(([name, value]) => [name, columnOf(row, name) ?? value]));
}

async function comesBack(row: Json, name: string, metadata: JsonRecord | null = null): Promise<void> {
  assert.ok(isRecord(row));
  const made = imported(row, metadata);
  const found = await rowOfRollout(slices(made));
  const text = jsonText(found?.row ?? null);
  const again = parsed(text);
  assert.ok(sameJson(again, decoded(row)), `${name}: ${text.slice(0, 2000)}`);
  assert.deepEqual([...(found?.left ?? [])], [], name);
}

for (const [name, text] of Object.entries(ROWS)) test(`${name}: a row comes back as it was`, () => comesBack(parsed(text), name));

test('collected files: every row and every metadata.json come back as they were', { skip }, async () => {
  const read = jsonReader();
  let files = 0;
  for (const path of globSync(`${SHARED}/data/verifiers/*/results.jsonl`).toSorted()) {
    const name = dirname(path).split('/').at(-1) ?? '';
    const beside = join(dirname(path), 'metadata.json');
    const about = existsSync(beside) ? read(readFileSync(beside)) : null;
    const metadata = about?.ok === true && isRecord(about.value) ? about.value : null;
    let rows = 0;
    for (const line of readFileSync(path, 'utf8').split('\n')) {
      const row = read(Buffer.from(line));
      if (!row.ok || !isRecord(row.value)) continue;
      await comesBack(row.value, `${name}, row ${rows}`, metadata);
      if (rows++ > 0 || metadata === null || isRecord(metadata['run'])) continue;
      const run = v0Run({ value: row.value, bytes: Buffer.from(line) }, metadata, {});
      assert.ok(sameJson(await metadataOfRun([run.event.slice]), metadata), name);
    }
    files += rows > 0 ? 1 : 0;
  }
  assert.ok(files > 10);
});

test('rows of any columns come back', async () => {
  const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom('[{"role":"assistant"}]', '', 1.5, -1, 1e15));
  const names = ['prompt', 'completion', 'reward', 'error', 'timing', 'metrics', 'info', 'answer', 'id', 'example_id', 'task', 'step', 'is_completed', 'is_truncated', 'stop_condition', 'generation_ms', 'other', 'trajectory', 'tool_defs', 'token_usage']; // prettier-ignore
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.constantFrom(...names), value), async (columns) => {
      await comesBack(parsed(JSON.stringify({ prompt: null, ...columns })), 'row');
    }),
    { numRuns: 300 },
  );
});

let seq = 0;
function event(type: string, data: object, ids: object = { trace: 't' }): Uint8Array {
  const id = `00000000-0000-7000-8000-${String(seq++).padStart(12, '0')}`;
  return encodeEvent({ v: 1, id, type, run: 'r', rollout: 'o', ...ids, time: 1_000_000, data });
}
const node = (index: number, parent: number | null, role: string, content: string, tokens?: object): Uint8Array =>
  event('node.appended', {
    index,
    parent,
    role,
    sampled: role === 'assistant',
    message: { role, content },
    ...(tokens !== undefined && { tokens }),
  });

test('a rollout recorded here becomes a row, and what a row cannot hold is counted', async () => {
  const tokens = { ids: PackedArray.of(Uint32Array.of(5)), mask: PackedArray.of(Uint8Array.of(1)) };
  const found = await rowOfRollout([
    event('rollout.started', { task: { key: '7', type: 'sum', data: { answer: '2' } }, started: 1_000_000 }, {}),
    event('trace.started', { agent: { trainable: false } }, { trace: 'judge' }),
    event('trace.started', { agent: { trainable: true }, tools: [{ name: 'add' }] }),
    node(0, null, 'user', 'x'),
    node(1, 0, 'assistant', 'wrong'),
    node(2, 0, 'assistant', 'y', tokens),
    event('call.recorded', { index: 0, node: 2, usage: { promptTokens: 3, cachedTokens: 2, completionTokens: 1 } }),
    event('reward.assigned', { scope: 'trace', name: 'correct', score: 1, weight: 0.5 }),
    event('reward.assigned', { scope: 'rollout', name: 'style', score: 0.25 }, {}),
    event('metric.recorded', { scope: 'trace', name: 'turns', value: 1 }),
    event('error.recorded', { scope: 'rollout', type: 'E', message: 'm' }, {}),
    event('error.recorded', { scope: 'trace', type: 'F', message: 'n' }),
    event('note.added', { scope: 'rollout', text: 'hm' }, {}),
    event('trace.ended', { ok: true, truncated: false, stopCondition: 'done' }),
    event('rollout.ended', { ok: true, timing: { agent: { start: 1_000_000, end: 1_500_000 } }, ended: 3_000_000 }, {}),
  ]);
  const want = parsed('{"example_id":7,"prompt":[{"role":"user","content":"x"}],"completion":[{"role":"assistant","content":"y"}],"task":"sum","answer":"2","reward":0.75,"error":{"error":"E","message":"m"},"timing":{"start_time":1.0,"generation":{"start":1.0,"end":1.5,"duration":0.5},"total":2.0},"is_completed":true,"is_truncated":false,"stop_condition":"done","metrics":{"correct":1.0,"style":0.25,"turns":1.0},"tool_defs":[{"name":"add"}],"token_usage":{"input_tokens":5.0,"output_tokens":1.0},"correct":1.0,"style":0.25,"turns":1.0}'); // prettier-ignore
  assert.ok(sameJson(found?.row, want), jsonText(found?.row ?? null));
  assert.deepEqual(Object.fromEntries(found?.left ?? []), {
    'note.added': 1, 'other traces': 1, 'nodes of other branches': 1, 'token streams of nodes': 1, 'weights of rewards': 1, 'errors beyond the first': 1, 'call.recorded': 1,
  }); // prettier-ignore
});

test('a null score is no zero; no reward is no column; no start is no row', async () => {
  const start = event('rollout.started', {}, {});
  const scored = await rowOfRollout([start, event('reward.assigned', { scope: 'trace', name: 'a', score: 1 }), event('reward.assigned', { scope: 'trace', name: 'b', score: null })]); // prettier-ignore
  assert.equal(scored?.row['reward'], null);
  assert.equal('reward' in ((await rowOfRollout([start]))?.row ?? {}), false);
  assert.equal(await rowOfRollout([event('trace.started', { agent: {} })]), null);
});
