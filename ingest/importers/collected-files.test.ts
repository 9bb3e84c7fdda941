/** The importers over every collected verifiers file, with counts made by another reader: plain JSON.parse over plain lines. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { readEvent } from '../../events/read-event.ts';
import type { EventOf, TapedeckEvent } from '../../events/registry.ts';
import { ByteWriter } from '../../base/byte-writer.ts';
import { episodeOf } from './export-verifiers.ts';
import { findFiles } from './find-files.ts';
import { importFiles } from './import-files.ts';
import { writeJson } from './json-text.ts';
import { sameJson, type Json } from './json-value.ts';
import { jsonReader } from './read-json.ts';
import type { ImportReport } from './report.ts';

const SHARED = join(import.meta.dirname, '../../../shared');
const skip = existsSync(join(SHARED, 'data/verifiers')) ? false : 'the collected files (../shared/data) are not here';
const V1 = [
  ...globSync(`${SHARED}/data/verifiers-v1-*/*.jsonl*`),
  ...globSync(`${SHARED}/peers/samples/verifiers-0.4.0-*.jsonl`),
].toSorted();
const V0 = globSync(`${SHARED}/data/verifiers/*/results.jsonl`).toSorted();

function plainLines(path: string): string[] {
  const bytes = readFileSync(path);
  const text = (path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
  return text.split('\n').filter((line) => line.trim() !== '');
}

/** What JSON.parse can read of a file. */
function plainRecords<T>(path: string): T[] {
  return plainLines(path).flatMap((line) => {
    try {
      return [JSON.parse(line) as T];
    } catch {
      return [];
    }
  });
}

type Kept = { readonly event: TapedeckEvent; readonly slice: Uint8Array };

/** Imports a file; every event is checked as a reader of the log checks it. */
async function imported(path: string): Promise<{ report: ImportReport; kept: Kept[] }> {
  const kept: Kept[] = [];
  const { files } = await findFiles([path]);
  const report = await importFiles(files, {
    lanes: 4,
    batchBytes: 1_000_000,
    batchEvents: 5000,
    signal: AbortSignal.timeout(120_000),
    sink: async (slices) => {
      for (const slice of slices) {
        const event = readEvent(slice);
        assert.ok(event.ok, event.ok ? '' : event.error.message);
        kept.push({ event: event.value, slice });
      }
      return { accepted: slices.length, duplicates: 0, rejected: [] };
    },
  });
  return { report, kept };
}

function count(kept: readonly Kept[], type: string): number {
  return kept.filter(({ event }) => event.type === type).length;
}
function sum<T>(items: readonly T[], number: (item: T) => number): number {
  return items.reduce((total, item) => total + number(item), 0);
}

type Episode = {
  errors: unknown[];
  traces: {
    nodes: { token_ids: unknown[]; mask: boolean[]; logprobs: unknown[] }[];
    calls: unknown[];
    rewards: object;
    metrics: object;
    errors: unknown[];
  }[];
};

for (const path of V1) {
  const name = basename(path);
  test(`${name}: counts agree with another reader, every event is legal, every episode comes back equal`, { skip }, async () => {
    const { report, kept } = await imported(path);
    const episodes = plainRecords<Episode>(path);
    const traces = episodes.flatMap((e) => e.traces);
    const nodes = traces.flatMap((t) => t.nodes);
    assert.deepEqual([report.files[0]?.imported, report.issueCount], [episodes.length, 0]);
    const expected = {
      'rollout.started': episodes.length,
      'rollout.ended': episodes.length,
      'trace.started': traces.length,
      'trace.ended': traces.length,
      'node.appended': nodes.length,
      'call.recorded': sum(traces, (t) => t.calls.length),
      'reward.assigned': sum(traces, (t) => Object.keys(t.rewards).length),
      'metric.recorded': sum(traces, (t) => Object.keys(t.metrics).length),
      'error.recorded': sum(traces, (t) => t.errors.length) + sum(episodes, (e) => e.errors.length),
    };
    for (const [type, number] of Object.entries(expected)) assert.equal(count(kept, type), number, type);
    const tokens = kept.flatMap(({ event }) => (event.type === 'node.appended' ? [event.data.tokens] : []));
    assert.deepEqual(
      [
        sum(tokens, (t) => t?.ids.length ?? 0),
        sum(tokens, (t) => t?.logprobs?.length ?? 0),
        sum(tokens, (t) => t?.mask.bytes.filter(Boolean).length ?? 0),
      ],
      [sum(nodes, (n) => n.token_ids.length), sum(nodes, (n) => n.logprobs.length), sum(nodes, (n) => n.mask.filter(Boolean).length)],
    );
    await comesBack(path, kept);
  });
}

async function comesBack(path: string, kept: readonly Kept[]): Promise<void> {
  const read = jsonReader();
  const slices = Map.groupBy(kept, ({ event }) => event.rollout);
  let back = 0;
  for (const line of plainLines(path)) {
    const original = read(Buffer.from(line));
    if (!original.ok) continue;
    const { id } = original.value as unknown as { id: string };
    const found = await episodeOf(
      id,
      (slices.get(id) ?? []).map(({ slice }) => slice),
    );
    const out = new ByteWriter();
    writeJson(found?.episode ?? null, out);
    const again = read(out.view());
    assert.ok(again.ok && sameJson(again.value, original.value as Json), `${basename(path)} ${id}`);
    // what another reader makes of the text (a sample: it costs more than all the rest)
    if (back < 25) assert.deepEqual(JSON.parse(out.view().toString()), JSON.parse(line));
    back++;
  }
  assert.ok(back > 0);
}

test('the torn file says so, and forks are found where they are known to be', { skip }, async () => {
  const torn = await imported(join(SHARED, 'data/verifiers-v1-generated/torn_last_line.traces.jsonl'));
  assert.deepEqual([torn.report.files[0]?.imported, torn.report.files[0]?.torn], [3, 1]);
  const forked = await imported(join(SHARED, 'data/verifiers-v1-generated/train_workplace_assistant.traces.jsonl'));
  assert.equal(forked.kept.filter(({ event }) => event.type === 'node.appended' && event.data.forkReason === 'unknown').length, 28);
});

type Row = { prompt: unknown; completion: unknown; reward: number; error?: unknown };

function messageCount(value: unknown, hosted: boolean): number {
  const decoded: unknown = hosted && typeof value === 'string' ? JSON.parse(value) : value;
  if (decoded === null || decoded === undefined) return 0;
  return Array.isArray(decoded) ? decoded.length : 1;
}

for (const path of V0) {
  const name = path.split('/').at(-2) ?? '';
  test(`${name}: counts agree with another reader, every event is legal`, { skip }, async () => {
    const { report, kept } = await imported(path);
    const rows = plainRecords<Row>(path);
    const hosted = name.startsWith('hosted');
    assert.deepEqual([report.files[0]?.imported, report.issueCount, report.warnings], [rows.length, 0, []]);
    assert.equal(new Set(kept.map(({ event }) => event.id)).size, kept.length);
    assert.equal(
      count(kept, 'node.appended'),
      sum(rows, (r) => messageCount(r.prompt, hosted) + messageCount(r.completion, hosted)),
    );
    assert.equal(count(kept, 'error.recorded'), rows.filter((r) => r.error !== undefined && r.error !== null).length);
    const scores = kept.flatMap(({ event }) => (event.type === 'reward.assigned' ? [event.data.score] : []));
    const ascending = (a: number | null, b: number | null): number => (a ?? 0) - (b ?? 0);
    assert.deepEqual(scores.toSorted(ascending), rows.map((r) => r.reward).toSorted(ascending));
    const calls = rows
      .flatMap((r) => (Array.isArray(r.completion) ? r.completion : []))
      .flatMap((m) => (m as { tool_calls?: unknown[] }).tool_calls ?? []);
    assert.equal(count(kept, 'tool.recorded'), hosted ? count(kept, 'tool.recorded') : calls.length);
  });
}

test('hosted rows are decoded through all their levels, and the raw page is the same rollouts', { skip }, async () => {
  const folder = join(SHARED, 'data/verifiers');
  const rows = await imported(join(folder, 'hosted-rl_short/results.jsonl'));
  const page = await imported(join(folder, 'hosted-rl_short/rollouts_raw.json'));
  const ids = (kept: readonly Kept[]): string[] => kept.map(({ event }) => event.id).toSorted();
  assert.deepEqual(ids(page.kept), ids(rows.kept));
  const tools = await imported(join(folder, 'hosted-rl_tool/rollouts_raw.json'));
  const called = tools.kept.filter((k): k is Kept & { event: EventOf<'tool.recorded'> } => k.event.type === 'tool.recorded');
  assert.ok(called.length > 0 && called.every(({ event }) => event.data.name.startsWith('run_')));
  const calls = tools.kept.flatMap(({ event }) => (event.type === 'node.appended' ? (event.data.message?.['tool_calls'] ?? []) : []));
  assert.ok((calls as { arguments: string }[]).length > 0);
  for (const call of calls as { arguments: string }[]) assert.equal(typeof JSON.parse(call.arguments), 'object');
});

test('the whole folder: what is no rollout file is not touched', { skip }, async () => {
  const { files, skipped } = await findFiles([join(SHARED, 'data/verifiers')]);
  assert.equal(files.length, V0.length + 2);
  assert.deepEqual(skipped, []);
});
