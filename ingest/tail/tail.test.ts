/** The tail over real files and a real edge: what is appended arrives, once, whatever happens to the files. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appendFile, copyFile, mkdir, mkdtemp, readFile, rename, rm, truncate, unlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { systemClock } from '../../base/clock.ts';
import { seededRandom } from '../../base/random.ts';
import { openEdge, type Edge } from '../http/edge-under-test.ts';
import { httpSink } from '../importers/http-sink.ts';
import { emptyReport, type ImportReport } from '../importers/report.ts';
import { ROWS, TRAIN_EPISODE } from '../importers/sample-records.ts';
import type { TailState } from './place.ts';
import { tail } from './tail.ts';
import type { TailOptions } from './tailing.ts';

let edge: Edge;
let folder = '';
let running: Tail[] = [];
before(async () => {
  edge = await openEdge();
});
after(() => edge.close());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-tail-'));
});
afterEach(async () => {
  for (const each of running) await each.stop();
  running = [];
  await rm(folder, { recursive: true, force: true });
});

type Tail = { readonly report: ImportReport; readonly notes: string[]; stop(): Promise<void>; readonly done: Promise<unknown> };

function optionsFor(over: Partial<TailOptions> = {}): TailOptions {
  return {
    root: folder,
    state: join(folder, '.tapedeck-tail.json'),
    target: { url: edge.url, project: null, run: null },
    sink: httpSink({ url: edge.url, clock: systemClock, random: seededRandom(1) }),
    signal: new AbortController().signal,
    clock: systemClock,
    once: false,
    sweepMs: 200,
    lanes: 3,
    batchBytes: 100_000,
    batchEvents: 500,
    ...over,
  };
}

function start(over: Partial<TailOptions> = {}): Tail {
  const stop = new AbortController();
  const report = emptyReport();
  const notes: string[] = [];
  const done = tail(optionsFor({ signal: stop.signal, onNote: (text) => notes.push(text), ...over }), report).catch(
    (error: unknown) => error,
  );
  const each = { report, notes, done, stop: async () => (stop.abort(), void (await done)) };
  running.push(each);
  return each;
}

const once = async (over: Partial<TailOptions> = {}): Promise<ImportReport> =>
  tail(optionsFor({ once: true, signal: AbortSignal.timeout(60_000), ...over }));

let made = 0;
/** An episode with an id of its own. */
function episode(): { id: string; line: string } {
  const id = `tail-${++made}`;
  return { id, line: `${TRAIN_EPISODE.replace('"id":"e1"', `"id":"${id}"`)}\n` };
}

const rolloutsNow = async (): Promise<Set<unknown>> => new Set((await edge.stored()).filter(({ event }) => event['type'] === 'rollout.ended').map(({ event }) => event['rollout'])); // prettier-ignore

async function until(what: string, isSo: () => boolean | Promise<boolean>, ms = 30_000): Promise<void> {
  for (const end = Date.now() + ms; !(await isSo());) {
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await sleep(20);
  }
}
const arrive = (ids: readonly string[]): Promise<void> =>
  until(`${ids.join()} in the log`, async () => {
    const there = await rolloutsNow();
    return ids.every((id) => there.has(id));
  });

/** How many records the log has beyond one of each. */
async function repeats(ids: readonly string[]): Promise<number> {
  const mine = (await edge.stored()).filter(({ event }) => ids.includes(event['rollout'] as string));
  return mine.length - new Set(mine.map(({ id }) => id)).size;
}

const state = async (): Promise<TailState> => JSON.parse(await readFile(join(folder, '.tapedeck-tail.json'), 'utf8')) as TailState;

test('lines that are appended arrive; a line without its end waits for the rest', async () => {
  const path = join(folder, 'traces.jsonl');
  const [a, b, c] = [episode(), episode(), episode()];
  await writeFile(path, a.line);
  start({ sweepMs: 60_000 });
  await arrive([a.id]);
  await appendFile(path, b.line + c.line.slice(0, 500));
  await arrive([b.id]);
  assert.ok(!(await rolloutsNow()).has(c.id));
  await appendFile(path, c.line.slice(500));
  await arrive([c.id]);
  assert.equal(await repeats([a.id, b.id, c.id]), 0);
});

test('files and folders that appear later are found by notices alone, and by sweeps alone', async () => {
  start({ sweepMs: 60_000 });
  await until('the first save', async () => (await readFile(join(folder, '.tapedeck-tail.json')).catch(() => null)) !== null);
  await sleep(300);
  const deep = join(folder, 'rollouts/step_1/train/all');
  await mkdir(deep, { recursive: true });
  const [a, b] = [episode(), episode()];
  await writeFile(join(deep, 'traces.jsonl'), a.line);
  await arrive([a.id]);
  // moved in as a whole
  const aside = await mkdtemp(join(tmpdir(), 'tapedeck-aside-'));
  await writeFile(join(aside, 'traces.jsonl'), b.line);
  await rename(aside, join(folder, 'gpt-4.1-mini--x'));
  await arrive([b.id]);
});

test('a start goes on where the last one was acknowledged', async () => {
  const path = join(folder, 'traces.jsonl');
  const all = Array.from({ length: 30 }, episode);
  await writeFile(path, all.slice(0, 10).map(({ line }) => line).join('')); // prettier-ignore
  const first = start();
  await until('the place is kept', async () => (await state().catch(() => null))?.places[0]?.lines === 10);
  await first.stop();
  await appendFile(path, all.slice(10).map(({ line }) => line).join('')); // prettier-ignore
  const report = await once();
  assert.equal(report.files[0]?.imported, 20);
  assert.equal(await repeats(all.map(({ id }) => id)), 0); // prettier-ignore
  assert.equal((await once()).sent, 0);
  // one start of the run, over both
  assert.equal(report.events['run.started'], undefined);
});

test('a run whose start was never acknowledged is started again', async () => {
  const a = episode();
  await writeFile(join(folder, 'traces.jsonl'), a.line);
  const broken = async (): Promise<never> => {
    throw new Error('the server is gone');
  };
  await assert.rejects(once({ sink: broken }), /gone/);
  assert.deepEqual([(await state()).runs, (await state()).places], [[], []]);
  const report = await once();
  assert.equal(report.events['run.started'], 1);
  assert.ok((await rolloutsNow()).has(a.id));
});

test('rotation: the renamed file is read to its end under its new name, the new one from its start', async () => {
  const path = join(folder, 'traces.jsonl');
  const [a, b, c, d] = [episode(), episode(), episode(), episode()];
  await writeFile(path, a.line + b.line.slice(0, 100));
  const first = start();
  await arrive([a.id]);
  await rename(path, `${path}.1`);
  await appendFile(`${path}.1`, b.line.slice(100));
  await writeFile(path, c.line);
  await arrive([b.id, c.id]);
  await until('the places are kept', async () => (await state()).places.map(({ lines }) => lines).join() === '2,1');
  await first.stop();
  await appendFile(`${path}.1`, d.line);
  await once();
  await arrive([d.id]);
  assert.equal(await repeats([a.id, b.id, c.id, d.id]), 0);
});

test('truncation, also with more than before written at once, begins again', async () => {
  const path = join(folder, 'traces.jsonl');
  const some = Array.from({ length: 6 }, episode);
  const [a, b, c, d, e, f] = some as [typeof some[0], typeof some[0], typeof some[0], typeof some[0], typeof some[0], typeof some[0]]; // prettier-ignore
  await writeFile(path, a.line + b.line);
  const first = start();
  await arrive([a.id, b.id]);
  await truncate(path, 0);
  await appendFile(path, c.line);
  await arrive([c.id]);
  // logrotate's copytruncate
  await copyFile(path, `${path}.1`);
  await truncate(path, 0);
  await appendFile(path, d.line + e.line);
  await arrive([d.id, e.id]);
  await first.stop();
  // rewritten in place with the same length
  await writeFile(path, d.line + f.line.padEnd(e.line.length));
  await once();
  assert.ok((await rolloutsNow()).has(f.id));
});

test('another file under the same inode is not mistaken for the old one', async () => {
  const path = join(folder, 'traces.jsonl');
  const [a, b, c] = [episode(), episode(), episode()];
  await writeFile(path, a.line);
  await once();
  const known = await state();
  await writeFile(path, b.line + c.line);
  await once();
  assert.deepEqual([known.places.length, (await rolloutsNow()).has(b.id), (await rolloutsNow()).has(c.id)], [1, true, true]);
});

test('compressed files are taken when they are whole', async () => {
  start();
  const some = Array.from({ length: 40 }, episode);
  const text = some.map(({ line }) => line).join(''); // prettier-ignore
  const packed = gzipSync(text);
  const path = join(folder, 'old.traces.jsonl.gz');
  await writeFile(path, packed.subarray(0, 600));
  // as if the writer paused: what is there does not change, but is no whole file
  await utimes(path, new Date(Date.now() - 60_000), new Date(Date.now() - 60_000));
  await sleep(500);
  await appendFile(path, packed.subarray(600));
  const other = episode();
  await writeFile(join(folder, 'sealed.jsonl.zst'), zstdCompressSync(other.line));
  await arrive([...some.map(({ id }) => id), other.id]); // prettier-ignore
  const each = running[0] as Tail;
  await until('the places are kept', async () => {
    const sizes = (await state()).places.map(({ size }) => size);
    return sizes.length === 2 && sizes.includes(packed.length);
  });
  await each.stop();
  assert.equal(each.report.issueCount, 0);
  assert.equal((await once()).sent, 0);
});

test('verifiers v0: rows keep their run when metadata.json comes and changes, and its end is told', async () => {
  const path = join(folder, 'results.jsonl');
  const rows = Array.from({ length: 6 }, (_, i) => (ROWS['g3 flat times'] as string).replace('"id":5', `"id":${1000 + i}`));
  const ofRows = async () =>
    (await edge.stored()).filter(({ event }) => (event['rollout'] as string | undefined)?.startsWith('v0-') === true);
  const before = new Set((await ofRows()).map(({ event }) => event['rollout']));
  const fresh = async () => (await ofRows()).filter(({ event }) => !before.has(event['rollout']));
  const first = start();
  await writeFile(path, `${rows[0]}\n`);
  await sleep(50);
  await writeFile(
    join(folder, 'metadata.json'),
    JSON.stringify({ env_id: 'sum', model: 'gpt', env_args: { x: 1 }, rollouts_per_example: 3 }),
  );
  await appendFile(path, `${rows[1]}\n`);
  const count = (wanted: number) =>
    until(`${wanted} rollouts`, async () => new Set((await fresh()).map(({ event }) => event['rollout'])).size === wanted);
  await count(2);
  await until('the place is kept', async () => (await state()).places[0]?.lines === 2);
  await first.stop();
  await appendFile(path, `${rows[2]}\n`);
  start();
  await count(3);
  const [run] = new Set((await fresh()).map(({ event }) => event['run'] as string));
  assert.match(run as string, /^sum--gpt--[0-9a-f]{12}$/);
  await writeFile(
    join(folder, 'metadata.json'),
    JSON.stringify({ env_id: 'sum', model: 'gpt', env_args: { x: 1 }, rollouts_per_example: 3, avg_reward: 0.5, time: 3 }),
  );
  const starts = async () => (await edge.stored()).filter(({ event }) => event['type'] === 'run.started' && event['run'] === run);
  await until('the averages are told', async () =>
    (await starts()).some(({ event }) => JSON.stringify(event['data']).includes('avg_reward')),
  );
  assert.equal(new Set((await fresh()).map(({ event }) => event['run'])).size, 1);
  const ids = (await fresh()).map(({ id }) => id);
  assert.equal(ids.length, new Set(ids).size);
});

test('what is no rollout is skipped with a reason; a folder that shadows another too', async () => {
  const [a, b] = [episode(), episode()];
  const all = join(folder, 'rollouts/step_3/train/all');
  const effective = join(folder, 'rollouts/step_3/train/effective');
  await mkdir(all, { recursive: true });
  await mkdir(effective, { recursive: true });
  await writeFile(join(all, 'traces.jsonl'), a.line);
  await writeFile(join(effective, 'traces.jsonl'), a.line.replace('"advantages":[0.5,-0.5]', '"advantages":[1.5,-1.5]'));
  await writeFile(join(folder, 'metrics.jsonl'), '{"step":1,"loss":2}\n');
  await writeFile(join(folder, 'traces.jsonl'), `${b.line}nonsense\n[]\n`);
  const report = await once();
  assert.deepEqual(report.skipped.map(({ path, reason }) => [path.slice(folder.length + 1), reason.slice(0, 24)]), [['metrics.jsonl', 'no known format: the fir'], ['rollouts/step_3/train/effective/traces.jsonl', 'the same episodes are in']]); // prettier-ignore
  assert.deepEqual(report.issues.map(({ line, code }) => [line, code]), [[2, 'invalid_json'], [3, 'wrong_type']]); // prettier-ignore
  assert.ok((await rolloutsNow()).has(a.id) && (await rolloutsNow()).has(b.id));
  assert.equal((await once()).issueCount, 0);
});

test('a torn last line is left for the next run; a whole one without its line feed is taken once', async () => {
  const [a, b] = [episode(), episode()];
  const path = join(folder, 'traces.jsonl');
  await writeFile(path, a.line.trimEnd());
  const first = await once();
  assert.deepEqual([first.files[0]?.imported, first.files[0]?.torn], [1, 0]);
  await appendFile(path, `\n${b.line.slice(0, 200)}`);
  const second = await once();
  assert.deepEqual([second.files[0]?.imported, second.files[0]?.torn, second.issueCount], [0, 1, 0]);
  await appendFile(path, b.line.slice(200));
  assert.equal((await once()).files[0]?.imported, 1);
  assert.equal(await repeats([a.id, b.id]), 0);
});

test('a line over the limit is named and skipped, however slowly it grows', async () => {
  const [a, b] = [episode(), episode()];
  const path = join(folder, 'traces.jsonl');
  await writeFile(path, `${a.line}{"x":"`);
  const each = start({ maxLineBytes: 100_000 });
  await arrive([a.id]);
  for (let i = 0; i < 20; i++) await appendFile(path, 'y'.repeat(300_000));
  await appendFile(path, `"}\n${b.line}`);
  await arrive([b.id]);
  assert.deepEqual(each.report.issues.map(({ line, code }) => [line, code]), [[2, 'record_too_large']]); // prettier-ignore
});

test('a state file of another target, or a damaged one, is not taken for ours', async () => {
  await once();
  await assert.rejects(once({ target: { url: 'http://127.0.0.1:1', project: null, run: null } }), {
    code: 'config_invalid',
    message: /belongs to/,
  });
  await writeFile(join(folder, '.tapedeck-tail.json'), '{"version":1');
  await assert.rejects(once(), { code: 'config_invalid', message: /remove it to begin again/ });
  await assert.rejects(once({ state: join(folder, 'no/such/folder/state.json') }), { code: 'not_writable' });
});

test('a server that is away is waited for', async () => {
  const [a] = [episode()];
  let refusals = 3;
  const sink = httpSink({ url: edge.url, clock: systemClock, random: seededRandom(1), fetch: (...args) => (refusals-- > 0 ? Promise.reject(new TypeError('fetch failed')) : fetch(...args)) }); // prettier-ignore
  await writeFile(join(folder, 'traces.jsonl'), a.line);
  start({ sink });
  await arrive([a.id]);
  assert.ok(refusals < 0);
});

test('the digest of a place covers what stands before it', async () => {
  const a = episode();
  await writeFile(join(folder, 'traces.jsonl'), a.line);
  await once();
  const [place] = (await state()).places;
  const bytes = Buffer.from(a.line);
  const digest = createHash('sha256').update(bytes.subarray(0, 1024)).update(bytes.subarray(-4096)).digest('hex');
  assert.deepEqual([place?.offset, place?.lines, place?.mark], [Buffer.byteLength(a.line), 1, digest.slice(0, 32)]);
});

test('thousands of files', async () => {
  const ids: string[] = [];
  for (let step = 0; step < 20; step++) {
    const at = join(folder, `rollouts/step_${step}/train/all`);
    await mkdir(at, { recursive: true });
    for (let i = 0; i < 50; i++) {
      const { id, line } = episode();
      ids.push(id);
      await writeFile(join(at, `traces-${i}.jsonl`.replace('traces-0.', 'traces.')), line);
    }
  }
  const each = start({ sweepMs: 1_000, batchBytes: 1_000_000, batchEvents: 5_000 });
  await until('all files', () => each.report.files.length === ids.length && each.report.sent === each.report.accepted && each.report.sent > 15 * ids.length, 120_000); // prettier-ignore
  const late = episode();
  const before = each.report.accepted;
  await appendFile(join(folder, 'rollouts/step_7/train/all/traces-9.jsonl'), late.line);
  await until('the late line', () => each.report.accepted > before);
  await until('its place', async () => (await state()).places.some(({ lines }) => lines === 2));
  await each.stop();
  assert.equal((await state()).places.length, ids.length);
  await unlink(join(folder, 'rollouts/step_7/train/all/traces-9.jsonl'));
  assert.equal((await once()).sent, 0);
  const seen = await rolloutsNow();
  assert.ok([...ids, late.id].every((id) => seen.has(id)));
  assert.equal(await repeats(ids), 0);
});
