/**
 * How long pass@k of one run takes as the store grows. The bar: at 100 times the rows p50 is below twice that at 1 time. Each run has 100 tasks of 8 rollouts of 25 nodes; `--runs`
 * (5) is how many there are at first, `--times` (100) how many times as many at the end: 10 M nodes. `--rounds` (41) requests are timed at both sizes.
 */
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { temporaryFolder } from '../e2e/server.ts';
import { migrate } from '../migrations/migrate.ts';
import { estimatesOf, type Method } from '../query/analytics/estimates.ts';
import { loadEvaluation } from '../query/analytics/evaluation.ts';
import { createPositionReader } from '../query/analytics/log-position.ts';
import { openReader } from '../query/analytics/reader.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { startEngine } from '../store/columns/engine/supervise.ts';

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '5' }, times: { type: 'string', default: '100' }, rounds: { type: 'string', default: '41' } },
});
const [runs, times, rounds] = [Number(values.runs), Number(values.times), Number(values.rounds)];
const TASKS = 100;
const ROLLOUTS = 8;
const NODES = 25;
const PARTITIONS = 4;
/** Runs per statement. */
const CHUNK = 25;
const BAR = 2;

const METHOD: Method = {
  reward: null,
  answer: null,
  chooseBy: null,
  threshold: 1,
  missing: 'excluded',
  over: 'tasks',
  confidence: 0.95,
  resamples: 2_000,
  seed: 0,
};

/** Rows of runs `from` to `to`, each table in one statement, at offsets that go on. */
async function fill(store: ColumnStore, from: number, to: number): Promise<void> {
  const perRun = TASKS * ROLLOUTS;
  const rollouts = (to - from) * perRun;
  const insert = (sql: string): Promise<void> => store.command(`${sql} SETTINGS async_insert = 0, deduplicate_insert = 'disable'`, { timeoutMs: 600_000 });
  const key = (n: string): string => `'default' AS project, concat('run-', toString(${from} + intDiv(${n}, ${perRun}))) AS run, concat('r-', toString(${from * perRun} + ${n})) AS rollout`;
  const place = (n: string, first: number): string => `toUInt16(${n} % ${PARTITIONS}) AS _partition, toUInt64(${first} + intDiv(${n}, ${PARTITIONS})) AS _offset`;
  const first = Math.ceil((from * perRun * (NODES + 3)) / PARTITIONS);
  await insert(
    `INSERT INTO nodes (project, run, rollout, trace, index, role, sampled, tokens, sampled_tokens, time, _hash, _partition, _offset) SELECT ${key(`intDiv(number, ${NODES})`)}, concat('t-', rollout), toUInt32(number % ${NODES}), 'assistant', number % 2, 100, 50, now64(6), toFixedString('0123456789abcdef', 16), ${place('number', first)} FROM numbers(${rollouts * NODES})`,
  );
  await insert(
    `INSERT INTO rollout_events (project, run, rollout, id, type, env, task_key, task_hash, ok, time, _partition, _offset) SELECT ${key('intDiv(number, 2)')}, generateUUIDv4(), if(number % 2 = 0, 'rollout.started', 'rollout.ended'), if(number % 2 = 0, 'bench', NULL), if(number % 2 = 0, toString(intDiv(number, ${2 * ROLLOUTS}) % ${TASKS}), NULL), if(number % 2 = 0, hex(sipHash128(intDiv(number, ${2 * ROLLOUTS}) % ${TASKS})), NULL), if(number % 2 = 1, true, NULL), now64(6), ${place('number', first)} FROM numbers(${rollouts * 2})`,
  );
  await insert(
    `INSERT INTO reward_events (project, run, rollout, scope, trace, _node, name, id, score, weight, time, _partition, _offset) SELECT ${key('number')}, 'trace', concat('t-', rollout), 4294967295, 'correct', generateUUIDv4(), toFloat64(cityHash64(number) % 3 = 0), 1, now64(6), ${place('number', first)} FROM numbers(${rollouts})`,
  );
  await insert(
    `INSERT INTO log_index (status, type, id, project, run, rollout, trace, time, bytes, _partition, _offset) SELECT 'stored', 'node.appended', generateUUIDv4(), ${key(`intDiv(number, ${NODES + 3})`)}, '', now64(6), 900, ${place('number', first)} FROM numbers(${rollouts * (NODES + 3)})`,
  );
} // prettier-ignore

async function timed(store: ColumnStore): Promise<{ p50: number; p95: number }> {
  const positions = createPositionReader(store);
  const { signal } = new AbortController();
  const once = async (): Promise<number> => {
    const started = performance.now();
    const reader = await openReader(store, positions, { project: 'default', asOf: { kind: 'latest' }, signal });
    const evaluation = await loadEvaluation(reader, { run: 'run-2' }, METHOD);
    const answer = estimatesOf(evaluation, METHOD, null, { project: 'default', asOf: reader.asOf });
    if (answer.estimates.passAtK.at(-1)?.tasks !== TASKS) throw new Error('the answer is not that of the run');
    return performance.now() - started;
  };
  for (let warm = 0; warm < 5; warm++) await once();
  const taken: number[] = [];
  for (let round = 0; round < rounds; round++) taken.push(await once());
  taken.sort((a, b) => a - b);
  return { p50: taken[Math.floor(rounds / 2)] as number, p95: taken[Math.floor(rounds * 0.95)] as number };
}

const folder = temporaryFolder('query-analytics');
const silent = { info: () => {}, warn: () => {}, error: () => {} };
const engine = await startEngine({ dataDir: folder.path, nice: 0, slots: 6, log: silent, clock: systemClock, random: systemRandom });
const connect = (database: string) => connectColumns({ ...engine, url: engine.url, database, clock: systemClock, random: systemRandom });
try {
  const admin = connect('default');
  await migrate(admin, { database: 'tapedeck', cluster: null, compression: 'by part size', clock: systemClock });
  await admin.close();
  const store = connect('tapedeck');
  const nodes = (count: number): string => `${((count * TASKS * ROLLOUTS * NODES) / 1e6).toFixed(2)} M nodes`;
  await fill(store, 0, runs);
  const small = await timed(store);
  console.log(`${runs} runs, ${nodes(runs)}: pass@k of one run p50 ${small.p50.toFixed(1)} ms, p95 ${small.p95.toFixed(1)} ms`);
  for (let from = runs; from < runs * times; from += CHUNK) await fill(store, from, Math.min(runs * times, from + CHUNK));
  const large = await timed(store);
  const factor = large.p50 / small.p50;
  console.log(`${runs * times} runs, ${nodes(runs * times)}: p50 ${large.p50.toFixed(1)} ms, p95 ${large.p95.toFixed(1)} ms`);
  console.log(`p50 grew ${factor.toFixed(2)} times over ${times} times the rows (bar: below ${BAR})`);
  if (factor >= BAR) process.exitCode = 1;
  await store.close();
} finally {
  await engine.close();
  folder.remove();
}
