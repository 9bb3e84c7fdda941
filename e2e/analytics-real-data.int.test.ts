/** Eval statistics over collected runs (../shared/data), imported through the real server, against a recomputation from the file itself. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import type { Breakdown } from '../query/analytics/breakdown/breakdown.ts';
import type { CompareAnswer } from '../query/analytics/compare-answer.ts';
import type { EstimatesAnswer } from '../query/analytics/estimates.ts';
import type { TasksAnswer } from '../query/analytics/task-list.ts';
import { startServer, temporaryFolder, type TestServer } from './server.ts';

const DATA = ['../../shared/data', '../../../shared/data'].map((path) => join(import.meta.dirname, path)).find((path) => existsSync(path));
const skip = DATA === undefined ? 'the collected files (../shared/data) are not here' : false;
const WIKI = 'verifiers-v1-converted/wiki_search_6models.traces.jsonl.gz';
const EDGE = 'verifiers-v1-generated/edge_nan-score_nul_u2028.traces.jsonl';

type Episode = {
  readonly id: string;
  readonly task: { readonly hash: string };
  readonly run: { readonly work: { readonly policy: { readonly start: number } } };
  readonly traces: readonly { readonly rewards: Readonly<Record<string, { readonly score: number; readonly weight: number }>> }[];
};

let server: TestServer;
let episodes: readonly Episode[];
const folder = temporaryFolder('analytics-data');

before(async () => {
  if (DATA === undefined) return;
  const text = gunzipSync(readFileSync(join(DATA, WIKI))).toString('utf8');
  episodes = text.trim().split('\n').map((line) => JSON.parse(line) as Episode);
  server = await startServer({ TAPEDECK_DATA: folder.path }, { listenMs: 120_000 });
  await server.ready(120_000);
  assert.equal(await tapedeck(['import', join(DATA, WIKI), join(DATA, EDGE), '--url', server.url]), 0);
  await stored(episodes.length);
}, { timeout: 600_000 }); // prettier-ignore
after(async () => {
  await server?.stop();
  folder.remove();
});

function tapedeck(args: readonly string[]): Promise<number | null> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../cli/main.ts'), ...args], { stdio: 'ignore', env: { PATH: process.env['PATH'] } }); // prettier-ignore
  return new Promise((resolve) => child.once('close', resolve));
}

async function ask<T>(path: string): Promise<T> {
  const response = await fetch(`${server.url}/v1/analytics/${path}`);
  assert.equal(response.status, 200, path);
  return (await response.json()) as T;
}

/** Waits until every rollout of the run is scored. */
async function stored(rollouts: number): Promise<void> {
  for (let left = 300; left > 0; left--) {
    const response = await fetch(`${server.url}/v1/analytics/pass-at-k?run=converted-run&resamples=0`);
    if (response.status === 200 && ((await response.json()) as EstimatesAnswer).counts.scored === rollouts) return;
    await sleep(1_000);
  }
  throw new Error('the imported rollouts were not stored in time');
}

function scoreOf({ traces }: Episode): number {
  return traces.flatMap((trace) => Object.values(trace.rewards)).reduce((sum, { score, weight }) => sum + score * weight, 0);
}

/** From the definition: the share of k-subsets with a success, by counting those without. */
function passing(scores: readonly number[], k: number): number {
  const choose = (n: number, r: number): number => (r > n ? 0 : Array.from({ length: r }).reduce<number>((product, _, i) => (product * (n - i)) / (i + 1), 1));
  return 1 - choose(scores.filter((score) => score < 1).length, k) / choose(scores.length, k);
} // prettier-ignore

const near = (actual: number | null | undefined, expected: number): void =>
  assert.ok(Math.abs((actual ?? NaN) - expected) < 1e-9, `${actual} is not ${expected}`);
const meanOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

test('pass@k of 600 rollouts of 100 tasks equals the file', { skip, timeout: 120_000 }, async () => {
  const tasks = [...Map.groupBy(episodes, (episode) => episode.task.hash).values()].map((same) => same.map(scoreOf));
  const answer = await ask<EstimatesAnswer>('pass-at-k?run=converted-run');
  assert.equal(answer.counts.tasks, tasks.length);
  for (const { k, estimate, tasks: counted } of answer.estimates.passAtK) {
    const enough = tasks.filter((scores) => scores.length >= (k as number));
    assert.equal(counted, enough.length);
    near(estimate, meanOf(enough.map((scores) => passing(scores, k as number))));
  }
  near(answer.estimates.avg.estimate, meanOf(tasks.map(meanOf)));
  const { tasks: lines, total } = await ask<TasksAnswer>('tasks?run=converted-run');
  assert.equal(total, tasks.length);
  assert.equal(lines.reduce((sum, line) => sum + line.n, 0), episodes.length);
}); // prettier-ignore

test('two policy versions on the same tasks with one request', { skip, timeout: 120_000 }, async () => {
  const of = (version: number): Map<string, number[]> => {
    const chosen = episodes.filter((episode) => episode.run.work.policy.start === version);
    return new Map([...Map.groupBy(chosen, (episode) => episode.task.hash)].map(([hash, same]) => [hash, same.map(scoreOf)]));
  };
  const [left, right] = [of(0), of(3)];
  const common = [...left.keys()].filter((hash) => right.has(hash));
  const answer = await ask<CompareAnswer>('compare?base=converted-run&baseVersion=0&otherVersion=3&k=1');
  const [comparison] = answer.comparisons;
  assert.equal(comparison?.commonTasks, common.length);
  assert.equal(comparison?.onlyBase.count, left.size - common.length);
  const pass = comparison?.measures.find(({ measure }) => measure === 'pass@1');
  near(pass?.paired.difference, meanOf(common.map((hash) => passing(right.get(hash) as number[], 1) - passing(left.get(hash) as number[], 1))));
}); // prettier-ignore

test('a breakdown of real rollouts adds up', { skip, timeout: 120_000 }, async () => {
  const answer = await ask<Breakdown>('breakdown?run=converted-run');
  assert.equal(answer.stops.reduce((sum, stop) => sum + stop.rollouts, 0), episodes.length);
  assert.equal(answer.truncated.yes + answer.truncated.no + answer.truncated.unknown, episodes.length);
  assert.ok(answer.tools.length > 0 && answer.calls.length > 0);
  near(answer.rewards.reduce((sum, part) => sum + (part.contribution ?? 0), 0), meanOf(episodes.map(scoreOf)));
}); // prettier-ignore

test('a rollout without a score is counted and left out', { skip, timeout: 120_000 }, async () => {
  const answer = await ask<EstimatesAnswer>('pass-at-k?run=verifiers-e');
  assert.equal(answer.estimates.avg.estimate, null);
  assert.ok(answer.counts.nan + answer.counts.unscored + answer.counts.failed >= 1, JSON.stringify(answer.counts));
  assert.ok(answer.warnings.length > 0);
});
