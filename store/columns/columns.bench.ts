/**
 * Questions over 5 M nodes in 500,000 rollouts (one run holds half), each beside its limit, and bytes on disk of realistic node events.
 * Run: node store/columns/columns.bench.ts [rollouts]. Needs about 1 GB of disk under the temporary directory and a minute.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { systemClock } from '../../base/clock.ts';
import { seededRandom } from '../../base/random.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { migrate } from '../../migrations/migrate.ts';
import type { ColumnStore } from './column-store.ts';
import { createBlock } from './projections/block.ts';
import { ledger, NO_REASON } from './projections/ledger.ts';
import { project } from './projections/project.ts';
import { storeEvent, summarise } from './projections/test-world.ts';
import { fillSearchIndex } from './search-index.ts';
import { refreshSummaries } from './summaries.ts';
import { openTestStore } from './test-store.ts';
import { ensureProject } from './views/ensure-project.ts';

const ROLLOUTS = Number(process.argv[2] ?? 500_000);
const NODES_EACH = 10;
const LIMIT_MS = 300;
const DATABASE = 'store';

/** Rollout n: half of them in one run, the rest in runs of 10,000. */
const RUN = `if(r < ${ROLLOUTS / 2}, 'run-big', concat('run-', toString(intDiv(r, 10000))))`;
const ID = "concat('rollout-', leftPad(toString(r), 8, '0'))";

/** One rollout in a hundred is the mirror of the one before it. */
const IS_MIRROR = 'r % 100 = 1';
const ORIGINAL = ID.replace('toString(r)', 'toString(r - 1)');

async function generate(store: ColumnStore): Promise<void> {
  const settings = { timeoutMs: 300_000, settings: { max_insert_threads: 1, async_insert: 0 } };
  for (let from = 0; from < ROLLOUTS; from += ROLLOUTS / 10) {
    const rows = `numbers(${from * NODES_EACH}, ${(ROLLOUTS / 10) * NODES_EACH})`;
    await store.command(
      `INSERT INTO nodes (project, run, rollout, trace, \`index\`, parent, role, sampled, tokens, sampled_tokens, policy_version_min, policy_version_max, time, _hash, _partition, _offset) ` +
        `SELECT 'default', ${RUN}, ${ID}, ${ID}, number % ${NODES_EACH}, if(number % ${NODES_EACH} = 0, NULL, number % ${NODES_EACH} - 1), if(number % 2 = 1, 'assistant', 'user'), number % 2 = 1, 64, if(number % 2 = 1, 50, 0), 7, 7, fromUnixTimestamp64Micro(1750000000000000 + number), MD5(toString(number)), r % 4, number ` +
        `FROM (SELECT number, intDiv(number, ${NODES_EACH}) AS r FROM ${rows})`,
      settings,
    );
    const rollouts = `(SELECT number AS r FROM numbers(${from}, ${ROLLOUTS / 10}))`;
    const common = `'group-1', 'wiki', 'task', 'agent_completed', false, if(r % 50 = 0, NULL, toFloat64(r % 11) / 10), 320, 250, ${NODES_EACH}, 5, 5, 1, fromUnixTimestamp64Micro(1750000000000000 + r), fromUnixTimestamp64Micro(1750000009000000 + r), 1, if(${IS_MIRROR}, ${ORIGINAL}, NULL)`;
    const columns =
      '`group`, env, task_key, stop_condition, truncated, reward, input_tokens, output_tokens, nodes, calls, turns, branches, started, ended, _version, mirror_of';
    await store.command(
      `INSERT INTO rollout_summary (project, run, rollout, ${columns}) SELECT 'default', ${RUN}, ${ID}, ${common} FROM ${rollouts}`,
      settings,
    );
    await store.command(
      `INSERT INTO trace_summary (project, run, rollout, trace, ${columns}) SELECT 'default', ${RUN}, ${ID}, ${ID}, ${common} FROM ${rollouts}`,
      settings,
    );
    for (const kind of ['rollout', 'trace']) {
      const ids = `INSERT INTO ids (project, kind, id, run, rollout, _partition, _offset) SELECT 'default'`;
      await store.command(`${ids}, '${kind}', ${ID}, ${RUN}, ${ID}, r % 4, r FROM ${rollouts}`, settings);
      await store.command(`${ids}, '${kind}_mirror', ${ORIGINAL}, ${RUN}, ${ID}, r % 4, r FROM ${rollouts} WHERE ${IS_MIRROR}`, settings);
    }
  }
}

const QUESTIONS: readonly [string, string][] = [
  ['page of 50 rollouts', "SELECT rollout, env, reward, turns, output_tokens, started FROM rollouts WHERE run = 'run-big' ORDER BY rollout LIMIT 50"],
  ['page of 50, deep', "SELECT rollout, env, reward, turns, output_tokens, started FROM rollouts WHERE run = 'run-big' AND rollout > 'rollout-00100000' ORDER BY rollout LIMIT 50"],
  ['page of 50 by reward', "SELECT rollout, reward FROM rollouts WHERE run = 'run-big' ORDER BY reward DESC NULLS LAST, rollout LIMIT 50"],
  ['count of a run', "SELECT count() FROM rollouts WHERE run = 'run-big'"],
  ['count of a run, filtered', "SELECT count() FROM rollouts WHERE run = 'run-big' AND reward > 0.5"],
  ['averages of a run', "SELECT avg(reward), avg(output_tokens), avg(turns), countIf(truncated) FROM rollouts WHERE run = 'run-big'"],
  ['averages by environment, whole project', 'SELECT env, count(), avg(reward) FROM rollouts GROUP BY env'],
  ['page of 50 traces', "SELECT trace, reward, turns FROM traces WHERE run = 'run-big' ORDER BY trace LIMIT 50"],
  ['one rollout by id, no run', "SELECT * FROM rollouts WHERE rollout = 'rollout-00123456'"],
  ['runs', 'SELECT run, status FROM runs ORDER BY run LIMIT 50'],
]; // prettier-ignore

async function medianMs(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 6; i++) {
    const started = performance.now();
    await work();
    times.push(performance.now() - started);
  }
  return times.slice(1).toSorted((a, b) => a - b)[2] as number;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function askAll(view: ColumnStore, store: ColumnStore): Promise<void> {
  const [parts] = await store.rows<object>(
    "SELECT sum(rows) AS nodes, count() AS parts FROM system.parts WHERE active AND database = 'store' AND table = 'nodes'",
  );
  say(`nodes ${JSON.stringify(parts)}, limit ${LIMIT_MS} ms each`);
  for (const [name, sql] of QUESTIONS) {
    const ms = await medianMs(() => view.rows(sql));
    say(`${ms < LIMIT_MS ? 'ok  ' : 'OVER'} ${ms.toFixed(0).padStart(5)} ms  ${name}`);
  }
}

async function refreshCost(store: ColumnStore): Promise<void> {
  for (const touched of [50, 500]) {
    const rollouts = Array.from(
      { length: touched },
      (_, i) => ['default', 'run-big', `rollout-${String(i * Math.floor(ROLLOUTS / 2 / touched)).padStart(8, '0')}`] as const,
    );
    const ms = await medianMs(() => refreshSummaries(store, { rollouts }, { version: 2 }));
    say(`summaries of ${touched} scattered rollouts: ${ms.toFixed(0)} ms`);
  }
}

/** Real text: the messages of the sample traces, or nothing when they are not there. */
function realTexts(): string[] {
  const folder = new URL('../../../shared/data/verifiers-v1-converted', import.meta.url).pathname;
  if (!existsSync(folder)) return [];
  const file = readdirSync(folder).find((name) => name.endsWith('.jsonl.gz'));
  if (file === undefined) return [];
  const texts: string[] = [];
  for (const line of gunzipSync(readFileSync(join(folder, file)))
    .toString('utf8')
    .split('\n')
    .slice(0, 400)) {
    for (const [, text] of line.matchAll(/"content": ?("(?:[^"\\]|\\.)*")/g)) texts.push(JSON.parse(text as string) as string);
  }
  return texts;
}

/** Token ids with the frequencies of words in text: the word's rank is its id, so common ids repeat as they do with a real tokenizer. */
function tokenizer(texts: readonly string[]): (text: string) => Uint32Array {
  const counts = new Map<string, number>();
  const pieces = (text: string): string[] => text.match(/ ?\p{L}{1,6}|\p{N}{1,3}|\s+|[^\s\p{L}\p{N}]/gu) ?? [];
  for (const text of texts) for (const piece of pieces(text)) counts.set(piece, (counts.get(piece) ?? 0) + 1);
  const ids = new Map([...counts].toSorted((a, b) => b[1] - a[1]).map(([piece], rank) => [piece, (rank * 7919) % 150_000]));
  return (text) => Uint32Array.from(pieces(text), (piece) => ids.get(piece) ?? 0);
}

/** Log-probabilities as a sampler gives them: most tokens are nearly certain. */
/** Enough that they are merged into a part that lasts (engine-config.ts). */
const BYTES_BLOCKS = 6;

function logprobOf(random: number): number {
  return random < 0.6 ? -(random ** 6) * 0.01 : -((random - 0.6) ** 2) * 20;
}

async function bytesOnDisk(store: ColumnStore): Promise<void> {
  const texts = realTexts();
  if (texts.length === 0) {
    say('bytes per event: skipped, the sample traces are not there');
    return;
  }
  const encode = tokenizer(texts);
  const random = seededRandom(7);
  const joined = texts.join('\n');
  let events = 0;
  let tokens = 0;
  let recordBytes = 0;
  for (let blockNumber = 0; blockNumber < BYTES_BLOCKS; blockNumber++) {
    const block = createBlock();
    let started = 0;
    for (let i = 0; i < 5_000; i++) {
      const at = Math.floor(random.next() * (joined.length - 2_048));
      const content = joined.slice(at, at + 2_048).toWellFormed();
      const ids = encode(content).subarray(0, 512);
      const mask = new Uint8Array(ids.length).map((_, p) => (p < 112 ? 0 : 1));
      const logprobs = new Float32Array(Math.max(0, ids.length - 112)).map(() => logprobOf(random.next()));
      const rollout = `rollout-${blockNumber}-${i >> 3}`;
      const data = { index: i & 7, parent: (i & 7) === 0 ? null : (i & 7) - 1, role: 'assistant', sampled: true, message: { role: 'assistant', content }, policyVersion: 7, tokens: { ids: PackedArray.of(ids), mask: PackedArray.of(mask), logprobs: PackedArray.of(logprobs) } }; // prettier-ignore
      const place = { project: 'bytes', partition: 0, offset: events, seed: events + 1 };
      const stored = storeEvent({ type: 'node.appended', run: 'run', rollout, trace: rollout, data }, place);
      const before = performance.now();
      project(stored, block);
      ledger(stored, 'stored', NO_REASON, block);
      started += performance.now() - before;
      events++;
      tokens += ids.length;
      recordBytes += stored.slice.length;
    }
    const before = performance.now();
    const encoded = block.tables.filter((table) => table.rows > 0).map((table) => ({ table, bytes: table.encode() }));
    const encodeMs = performance.now() - before;
    for (const { table, bytes } of encoded) await store.insertNative(table.name, table.columnNames, bytes);
    say(`block ${blockNumber}: project ${((started * 1000) / 5_000).toFixed(1)} us/event, encode ${((encodeMs * 1000) / 5_000).toFixed(1)}, insert ${(((performance.now() - before - encodeMs) * 1000) / 5_000).toFixed(1)}`); // prettier-ignore
    await summarise(store, block.touched);
  }
  while ((await fillSearchIndex(store)) > 0);
  say(`${events} node events of ${Math.round(recordBytes / events)} bytes, ${(tokens / events).toFixed(0)} tokens each`);
  await reportTables(store, events, 'as inserted');
  const tables = await store.rows<{ table: string }>("SELECT DISTINCT table FROM system.parts WHERE active AND database = 'bytes'");
  for (const { table } of tables) await store.command(`OPTIMIZE TABLE bytes.${table} FINAL`);
  await reportTables(store, events, 'merged');
  // a part with one file for all columns does not know their sizes
  await store.command('ALTER TABLE bytes.node_payloads MODIFY SETTING min_bytes_for_wide_part = 0');
  await store.command('OPTIMIZE TABLE bytes.node_payloads FINAL');
  await reportStreams(store, events, tokens);
}

/** Fresh parts are LZ4 and soon merged; what lasts is ZSTD. The limit is that of what lasts. */
async function reportTables(store: ColumnStore, events: number, state: 'as inserted' | 'merged'): Promise<void> {
  const tables = await store.rows<{ table: string; bytes: string }>("SELECT table, sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database = 'bytes' GROUP BY table ORDER BY sum(bytes_on_disk) DESC LIMIT 8"); // prettier-ignore
  const perEvent = tables.reduce((sum, { bytes }) => sum + Number(bytes), 0) / events;
  for (const { table, bytes } of tables) say(`  ${(Number(bytes) / events).toFixed(0).padStart(6)} B/event  ${table}`);
  const verdict = state === 'as inserted' ? '    ' : perEvent < 4_500 ? 'ok  ' : 'OVER';
  say(`${verdict} ${perEvent.toFixed(0)} B/event in all tables ${state}, limit 4500`);
}

async function reportStreams(store: ColumnStore, events: number, tokens: number): Promise<void> {
  const columns = await store.rows<{ column: string; bytes: string }>("SELECT column, sum(column_data_compressed_bytes) AS bytes FROM system.parts_columns WHERE active AND database = 'bytes' AND table = 'node_payloads' GROUP BY column ORDER BY sum(column_data_compressed_bytes) DESC LIMIT 8"); // prettier-ignore
  for (const { column, bytes } of columns) say(`  ${(Number(bytes) / events).toFixed(0).padStart(6)} B/event  ${column}`);
  const streams = columns
    .filter(({ column }) => ['token_ids', 'mask', 'logprobs'].includes(column))
    .reduce((sum, { bytes }) => sum + Number(bytes), 0);
  say(`${streams / tokens < 4.5 ? 'ok  ' : 'OVER'} ${(streams / tokens).toFixed(2)} B/token (ids, mask, logprobs), limit 4.5`);
}

const engine = await openTestStore();
try {
  for (const database of [DATABASE, 'bytes'])
    await migrate(engine.connect('default'), { database, cluster: null, compression: 'by part size', clock: systemClock });
  await bytesOnDisk(engine.connect('bytes'));
  const store = engine.connect(DATABASE);
  const started = performance.now();
  await generate(store);
  say(`generated ${ROLLOUTS * NODES_EACH} nodes, ${ROLLOUTS} rollouts in ${((performance.now() - started) / 1000).toFixed(0)} s`);
  await askAll(engine.connect(await ensureProject(store, 'default', { database: DATABASE, cluster: null })), store);
  await refreshCost(store);
} finally {
  await engine.close();
}
