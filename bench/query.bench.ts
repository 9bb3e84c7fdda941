/**
 * How the cost of questions grows with what is stored: p50 of list, fetch, search and pass@k over a store and over one with 100 times its rows. The bar: below twice. Both stores
 * are asked in turns, through the routes. Run: npm run bench -- query [--nodes 1000000] [--rounds 40] [--only search] [--store <folder>]
 * With `--store` the stores are kept there and found again: `--rounds 0` fills them first, so that 10 M nodes (2 GB, minutes) need not be made each time.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { temporaryFolder } from '../e2e/server.ts';
import { NODES_A_ROLLOUT, openQueryWorld, RARE_WORDS, ROLLOUTS_A_RUN, type QueryWorld } from './query-world.ts';

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '40' },
    only: { type: 'string', default: '' },
    store: { type: 'string' },
  },
});
const nodes = Number(values.nodes);
const rounds = Number(values.rounds);
const TIMES = 100;
const BAR = 2;
/** The first ones fill caches. */
const WARM_UP = 3;

const pad = (n: number): string => String(n).padStart(8, '0');
const run = (n: number): string => `run-${pad(Math.floor(n / ROLLOUTS_A_RUN))}`;
const rareWord = (n: number): string => `word${(n * NODES_A_ROLLOUT) % RARE_WORDS}`;

/** Questions about the n-th of the rollouts. */
const QUESTIONS: Readonly<Record<string, (n: number) => string>> = {
  'list: first page of runs': () => '/v1/runs',
  'list: first page of rollouts': () => '/v1/rollouts',
  'list: rollouts of a run by reward': (n) => `/v1/rollouts?run=${run(n)}&sort=-reward&count=exact`,
  'list: groups of a run': (n) => `/v1/groups?run=${run(n)}`,
  'list: tasks of a run': (n) => `/v1/tasks?run=${run(n)}`,
  'list: traces of a run': (n) => `/v1/traces?run=${run(n)}`,
  'list: nodes of a trace': (n) => `/v1/nodes?trace=t${pad(n)}`,
  'list: rewards of a rollout': (n) => `/v1/rewards?rollout=o${pad(n)}`,
  'fetch: a run by id': (n) => `/v1/runs/${run(n)}`,
  'fetch: a rollout by id and run': (n) => `/v1/rollouts/o${pad(n)}?run=${run(n)}`,
  'fetch: a rollout by id': (n) => `/v1/rollouts/o${pad(n)}`,
  'fetch: a trace by id': (n) => `/v1/traces/t${pad(n)}/graph?around=5`,
  'fetch: a node by id': (n) => `/v1/traces/t${pad(n)}/nodes/3`,
  'search: a rare word in a run': (n) => `/v1/search?q=${rareWord(n)}&run=${run(n)}`,
  'search: a rare word': (n) => `/v1/search?q=${rareWord(n)}`,
  'search: a word of one node': (n) => `/v1/search?q=${n * NODES_A_ROLLOUT}`,
  'search: a word of every node': () => '/v1/search?q=text',
  'search: a frequent and a rare word': (n) => `/v1/search?q=text+${rareWord(n)}`,
  'search: a phrase': (n) => `/v1/search?q=%22and+${rareWord(n)}%22`,
  'search: a word that is nowhere': () => '/v1/search?q=nowhere',
  'pass@k of a run': (n) => `/v1/analytics/pass-at-k?run=${run(n)}`,
};

async function timed({ app, rollouts }: QueryWorld, question: (n: number) => string, round: number): Promise<number> {
  const url = question((round * 7_919) % rollouts);
  const began = performance.now();
  const answer = await app.inject({ url });
  if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.body}`);
  return performance.now() - began;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

async function compare(name: string, question: (n: number) => string, small: QueryWorld, large: QueryWorld): Promise<boolean> {
  const times: { readonly small: number[]; readonly large: number[] } = { small: [], large: [] };
  for (let round = 0; round < rounds + WARM_UP; round++) {
    const [a, b] = [await timed(small, question, round), await timed(large, question, round)];
    if (round < WARM_UP) continue;
    times.small.push(a);
    times.large.push(b);
  }
  const [a, b] = [median(times.small), median(times.large)];
  const isBelow = b / a < BAR;
  console.log(`${isBelow ? 'ok  ' : 'OVER'} ${name.padEnd(36)} ${a.toFixed(1).padStart(8)} ${b.toFixed(1).padStart(8)}   x ${(b / a).toFixed(2)}`);
  return isBelow;
} // prettier-ignore

const folder = values.store === undefined ? temporaryFolder('query') : { path: values.store, remove: () => {} };
const large = await openQueryWorld(join(folder.path, `nodes-${nodes}`), nodes);
const small = await openQueryWorld(join(folder.path, `nodes-${nodes}-small`), Math.max(1_000, Math.round(nodes / TIMES)));
if (rounds > 0) {
  console.log(`${small.rollouts * NODES_A_ROLLOUT} and ${large.rollouts * NODES_A_ROLLOUT} nodes, ${rounds} rounds; p50 in ms`);
  for (const [name, question] of Object.entries(QUESTIONS)) {
    if (name.includes(values.only) && !(await compare(name, question, small, large))) process.exitCode = 1;
  }
}
await small.close();
await large.close();
folder.remove();
