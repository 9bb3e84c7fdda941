/** verifiers' formats over a real log, projector and engine: collected files go in by the importers, come out by the jobs, and are the same again. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { partitionKey } from '../../events/partition-key.ts';
import { readEvent } from '../../events/read-event.ts';
import { makeEvent } from '../../ingest/importers/event-maker.ts';
import { findFiles } from '../../ingest/importers/find-files.ts';
import { importFiles } from '../../ingest/importers/import-files.ts';
import { isRecord, sameJson, type Json } from '../../ingest/importers/json-value.ts';
import { jsonReader } from '../../ingest/importers/read-json.ts';
import { EPISODES, ROWS } from '../../ingest/importers/sample-records.ts';
import { columnOf, jsonText } from '../../ingest/importers/verifiers-v0-row.ts';
import type { ExportJobs, ExportStatus } from '../../query/exports/export-jobs.ts';
import { openTestWorld, type TestWorld } from '../../query/log-for-tests.ts';
import { exportRoutes } from '../../query/routes/exports.ts';
import { openDirectoryBlobs } from '../../store/blobs/directory-blobs.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { openExports } from './open-exports.ts';

const DATA = join(import.meta.dirname, '../../../shared/data');
const skip = existsSync(DATA) ? false : 'the collected files (../shared/data) are not here';
const V1 = ['eval_hangman', 'train_blackjack', 'train_tictactoe', 'eval_vllm_token-ids_no-logprobs', 'edge_nan-score_nul_u2028'].map((name) => `verifiers-v1-generated/${name}.traces.jsonl`); // prettier-ignore
const V0 = ['g1_tool-test_no-answer', 'g2_math-python_toolcalls-as-strings', 'g3_math-python_flat-ms-id', 'g4_wordle_example-id', 'g5_deepdive_rlm_deepseek', 'hosted-rl_short']; // prettier-ignore

const folder = mkdtempSync(join(tmpdir(), 'tapedeck-verifiers-exports-'));
let world: TestWorld;
let app: FastifyInstance;
let jobs: ExportJobs;

before(async () => {
  world = await openTestWorld();
  const blobs = await openDirectoryBlobs({ directory: join(folder, 'blobs'), clock: systemClock, random: systemRandom });
  const { store, log } = world;
  const exports = openExports({ store, log, blobs, directory: join(folder, 'files'), clock: systemClock });
  ({ jobs } = exports);
  app = Fastify();
  await app.register(exportRoutes, { store, ...exports });
});
after(async () => {
  await jobs?.close();
  await app?.close();
  await world?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What the importer makes of a file or folder, in order. */
async function eventsOf(path: string, run?: string): Promise<Uint8Array[]> {
  const made: Uint8Array[] = [];
  const { files } = await findFiles([path]);
  const report = await importFiles(files, {
    ...(run !== undefined && { run }), lanes: 1, batchBytes: 1_000_000, batchEvents: 1000, signal: AbortSignal.timeout(120_000),
    sink: async (slices) => {
      made.push(...slices.map((slice) => Uint8Array.from(slice)));
      return { accepted: slices.length, duplicates: 0, rejected: [] };
    },
  });
  assert.ok(made.length > 0 && report.issueCount === 0, path);
  return made;
} // prettier-ignore

async function store(slices: readonly Uint8Array[]): Promise<void> {
  const { log } = world;
  const records = slices.map((slice) => {
    const event = readEvent(slice);
    assert.ok(event.ok);
    return { key: Buffer.from(partitionKey(event.value)), value: Buffer.from(slice) };
  });
  for (const [partition, some] of Map.groupBy(records, ({ key }) => partitionOf(key.toString(), log.partitions))) await log.append(partition, some);
  await world.project();
} // prettier-ignore

function rolloutOf(slice: Uint8Array): string | undefined {
  const event = readEvent(slice);
  return event.ok ? event.value.rollout : undefined;
}

function put(name: string, content: string): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

async function exported(body: object): Promise<ExportStatus> {
  const begun = await app.inject({ method: 'POST', url: '/v1/exports', payload: body });
  assert.equal(begun.statusCode, 202, begun.body);
  const end = Date.now() + 120_000;
  for (let status = begun.json<ExportStatus>(); ; status = (await app.inject({ url: `/v1/exports/${status.id}` })).json()) {
    if (status.state !== 'waiting' && status.state !== 'running') return status;
    if (Date.now() > end) throw new Error('the export does not end');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function fileOf({ id, state, error }: ExportStatus, beside?: string): Promise<Buffer> {
  assert.equal(state, 'done', JSON.stringify(error));
  const answer = await app.inject({ url: `/v1/exports/${id}/file${beside === undefined ? '' : `?beside=${beside}`}` });
  assert.equal(answer.statusCode, 200, answer.body.slice(0, 500));
  return answer.rawPayload;
}

/** The documents of a file that are one; a torn last line is none. */
function documents(bytes: Buffer): Json[] {
  const read = jsonReader();
  return bytes.toString().split('\n').flatMap((line) => {
    const value = read(Buffer.from(line));
    return value.ok ? [value.value] : [];
  });
} // prettier-ignore

const runOf = (slices: readonly Uint8Array[]): string => {
  const event = readEvent(slices[0] as Uint8Array);
  assert.ok(event.ok && event.value.run !== undefined);
  return event.value.run as string;
};

/** One text per document: numbers as they are, keys in order. */
const canonical = (value: Json): string => jsonText(value, { sortKeys: true });

/** The same documents, in any order. */
function assertSame(found: readonly string[], wanted: readonly string[], what: string): void {
  assert.equal(found.length, wanted.length, what);
  const [a, b] = [found.toSorted(), wanted.toSorted()];
  const at = a.findIndex((text, i) => text !== b[i]);
  assert.equal(at, -1, `${what}: ${a[at]?.slice(0, 1000) ?? ''}\n${b[at]?.slice(0, 1000) ?? ''}`);
}

/**
 * What the events of rollouts say; `ids` with the ids they are about. Event ids are left out: they depend on the order of keys, which no export keeps. `run.started` has the
 * time of the first record of its file, and files may have another order.
 */
function said(slices: readonly Uint8Array[], { ids }: { ids: boolean }): string[] {
  return slices.flatMap((slice) => {
    const { id: _, ...event } = decodeCbor(slice, 0, slice.length, { wholeFloats: true }) as { readonly [key: string]: Json };
    if (event['type'] === 'run.started') return [];
    return [canonical(ids ? event : { type: event['type'] as Json, time: event['time'] as Json, data: event['data'] as Json })];
  });
}

/** Imports, exports, compares document by document, imports again: the same events. Several files may be of one run. */
async function v1ComesBack(path: string): Promise<void> {
  const first = await eventsOf(path);
  await store(first);
  const originals = documents(readFileSync(path));
  const wanted = new Set(originals.map((each) => (each as { id: string }).id));
  const lines: string[] = [];
  for (const run of new Set(first.map((slice) => runOf([slice])))) {
    const status = await exported({ format: 'verifiers-v1', filter: { run } });
    assert.deepEqual([status.report?.left, status.report?.incomplete], [{}, []]);
    const file = (await fileOf(status)).toString().trimEnd().split('\n');
    lines.push(...file.filter((line) => wanted.has((JSON.parse(line.replaceAll(/\b(NaN|-?Infinity)\b/g, 'null')) as { id: string }).id)));
  }
  const again = join(folder, 'again.traces.jsonl');
  writeFileSync(again, lines.map((line) => `${line}\n`).join(''));
  assertSame(documents(readFileSync(again)).map(canonical), originals.map(canonical), path);
  assertSame(said(await eventsOf(again), { ids: true }), said(first, { ids: true }), path);
} // prettier-ignore

/** Rollouts of v0 rows are named by the bytes of the row, and the export has other bytes: ids are not compared. */
async function v0ComesBack(path: string, run: string): Promise<void> {
  const first = await eventsOf(path, run);
  await store(first);
  const ownRun = runOf(first);
  const status = await exported({ format: 'verifiers-v0', filter: { run: ownRun } });
  assert.deepEqual([status.report?.left, status.report?.incomplete, status.beside.map(({ name }) => name)], [{}, [], ['metadata.json']]);
  const again = join(folder, `again-${run}`);
  mkdirSync(again);
  writeFileSync(join(again, 'results.jsonl'), await fileOf(status));
  writeFileSync(join(again, 'metadata.json'), await fileOf(status, 'metadata.json'));
  const rows = documents(readFileSync(path)).map((row) => {
    assert.ok(isRecord(row));
    return canonical(Object.fromEntries<Json>(Object.entries(row).map(([name, value]) => [name, columnOf(row, name) ?? value])));
  });
  assertSame(documents(readFileSync(join(again, 'results.jsonl'))).map(canonical), rows, run);
  const metadata = join(dirname(path), 'metadata.json');
  const [wanted, found] = [metadata, join(again, 'metadata.json')].map((file) => (existsSync(file) ? jsonReader()(readFileSync(file)) : null));
  if (ownRun === run && wanted?.ok === true) assert.ok(found?.ok === true && sameJson(found.value, wanted.value), run);
  assertSame(said(await eventsOf(join(again, 'results.jsonl'), run), { ids: false }), said(first, { ids: false }), run);
} // prettier-ignore

test('verifiers-v1: the sample episodes come back equal', async () => {
  const path = join(folder, 'samples.traces.jsonl');
  writeFileSync(path, EPISODES.map(([, text]) => `${text}\n`).join(''));
  await v1ComesBack(path);
});

test('verifiers-v1: what an episode has no place for is summed over the rollouts, and a rollout without a start is named', async () => {
  const first = await eventsOf(
    put(
      'again.traces.jsonl',
      EPISODES.slice(0, 2)
        .map(([, text]) => `${text.replaceAll(/"r[12]"/g, '"r-left"').replaceAll(/"id":"([et]\d)"/g, '"id":"left-$1"')}\n`)
        .join(''),
    ),
  );
  const rollouts = [...new Set(first.map(rolloutOf))].filter((id) => id !== undefined);
  assert.equal(rollouts.length, 2);
  const note = (rollout: string | undefined, text: string): Uint8Array =>
    makeEvent({ run: 'r-left', rollout }, 'note.added', text, 1_762_214_400_000_000, { scope: 'rollout', label: 'odd', text }).slice;
  const lost = makeEvent({ run: 'r-left', rollout: 'no-start' }, 'rollout.ended', '', 1_762_214_400_000_000, { ok: true }).slice;
  await store([...first, note(rollouts[0], 'a'), note(rollouts[0], 'b'), note(rollouts[1], 'c'), lost]);
  const status = await exported({ format: 'verifiers-v1', filter: { run: 'r-left' } });
  assert.deepEqual(
    [status.state, status.rows, status.report],
    ['done', 2, { asOf: null, left: { 'note.added': 3 }, incomplete: ['no-start'] }],
  );
  assert.equal(documents(await fileOf(status)).length, 2);
});

test('verifiers-v1: collected episodes come back equal', { skip }, async () => {
  for (const name of V1) await v1ComesBack(join(DATA, name));
});

test('verifiers-v0: sample rows come back equal, and so does metadata.json', async () => {
  const place = join(folder, 'samples-v0');
  mkdirSync(place);
  const own = Object.entries(ROWS).filter(([name]) => !name.startsWith('hosted'));
  writeFileSync(join(place, 'results.jsonl'), own.map(([, text]) => `${text}\n`).join(''));
  writeFileSync(
    join(place, 'metadata.json'),
    '{"env_id":"sum","env_args":{"seed":1},"model":"toy","rollouts_per_example":3,"avg_reward":0.5,"time_ms":12.5}',
  );
  await v0ComesBack(join(place, 'results.jsonl'), 'sample-rows');
});

test('verifiers-v0: collected rows of every generation come back equal, and so does metadata.json', { skip }, async () => {
  for (const name of V0) await v0ComesBack(join(DATA, 'verifiers', name, 'results.jsonl'), name);
});

test('verifiers-v0 is about one run; what lies beside an export is found by name only, and goes with it', async () => {
  const two = await exported({ format: 'verifiers-v0' });
  assert.deepEqual([two.state, two.error?.code], ['failed', 'bad_request']);
  const none = await exported({ format: 'verifiers-v0', filter: { run: 'no such run' } });
  assert.deepEqual([none.state, none.rows, none.beside], ['done', null, []]);
  const status = await exported({ format: 'verifiers-v0', filter: { run: 'sample-rows' } });
  const url = `/v1/exports/${status.id}/file`;
  const part = await app.inject({ url: `${url}?beside=metadata.json`, headers: { range: 'bytes=1-8' } });
  assert.deepEqual([part.statusCode, part.body, part.headers['content-disposition']], [206, '"env_id"', 'attachment; filename="metadata.json"']);
  for (const beside of ['results.jsonl', '../metadata.json', '%2e%2e%2fx']) assert.equal((await app.inject({ url: `${url}?beside=${beside}` })).statusCode, 404);
  assert.equal((await app.inject({ method: 'DELETE', url: `/v1/exports/${status.id}` })).statusCode, 200);
  assert.equal(existsSync(join(folder, 'files', `${status.id}.metadata.json`)), false);
  assert.equal((await app.inject({ url: `${url}?beside=metadata.json` })).statusCode, 404);
}); // prettier-ignore

test('ATIF: one trajectory per trace with a message', async () => {
  const status = await exported({ format: 'atif', filter: { rollout: 'e1' } });
  const [only, ...others] = documents(await fileOf(status)) as { trajectory_id: string; steps: { source: string }[] }[];
  assert.equal(others.length, 0);
  assert.deepEqual([only?.trajectory_id, only?.steps.map(({ source }) => source)], ['t1', ['user', 'agent', 'agent']]);
  assert.ok((status.report?.left['reward.assigned'] ?? 0) > 0);
  const bare = await exported({ format: 'atif', filter: { rollout: 'e3' } });
  assert.deepEqual(bare.report?.incomplete, ['t4']);
});
