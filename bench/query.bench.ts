/**
 * How the cost of questions grows with what is stored: p50 of list, fetch and search over a store and over one with 100 times its rows. Rows are made by the engine, ten nodes a
 * rollout; both stores are asked in turns. Run: node bench/query.bench.ts [--nodes 1000000] [--rounds 40]
 */
import { parseArgs } from 'node:util';
import Fastify, { type FastifyInstance } from 'fastify';
import { startTestEngine, type TestEngine } from '../query/engine-for-tests.ts';
import { DATABASE, prepareStore } from '../query/events-for-tests.ts';
import { graphRoutes } from '../query/routes/graphs.ts';
import { listRoutes } from '../query/routes/lists.ts';
import { searchRoutes } from '../query/routes/search.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';

const { values } = parseArgs({ options: { nodes: { type: 'string', default: '1000000' }, rounds: { type: 'string', default: '40' } } });
const nodes = Number(values.nodes);
const rounds = Number(values.rounds);
const NODES_A_ROLLOUT = 10;
const ROLLOUTS_A_RUN = 1_000;
const STEP = 500_000;

/** Ids as numbers of one width, so that their order is that of the numbers. */
const id = (letter: string, n: string): string => `concat('${letter}', leftPad(toString(${n}), 8, '0'))`;

async function fill(store: ColumnStore, count: number): Promise<void> {
  const rollout = `intDiv(number, ${NODES_A_ROLLOUT})`;
  const run = id('run-', `intDiv(${rollout}, ${ROLLOUTS_A_RUN})`);
  const keys = `'default', ${run}, ${id('o', rollout)}, ${id('t', rollout)}`;
  const index = `toUInt32(number % ${NODES_A_ROLLOUT})`;
  const text = `concat('some text of node ', toString(number), ' and word', toString(number % 9973))`;
  const insert = async (table: string, columns: string, select: string, rows: number): Promise<void> => {
    for (let at = 0; at < rows; at += STEP) {
      await store.command(`INSERT INTO ${table} (${columns}) SELECT ${select} FROM numbers(${at}, ${Math.min(STEP, rows - at)})`, { timeoutMs: 600_000 });
    }
  };
  const inTrace = 'project, run, rollout, trace, `index`';
  const facts = `${inTrace}, parent, role, sampled, tokens, sampled_tokens, time, _partition, _offset`;
  const cells = `${keys}, ${index}, if(${index} = 0, NULL, ${index} - 1), if(${index} % 2 = 0, 'user', 'assistant'), ${index} % 2 = 1, 20, 10, toDateTime64(1700000000, 6, 'UTC'), 0, number`;
  await insert('nodes', `${facts}, _hash`, `${cells}, toFixedString('0123456789abcdef', 16)`, count);
  await insert('node_payloads', `${facts}, text`, `${cells}, ${text}`, count);
  await insert('node_search', `${inTrace}, role, text, _partition, _offset`, `${keys}, ${index}, 'user', ${text}, 0, number`, count);
  const rollouts = Math.ceil(count / NODES_A_ROLLOUT);
  const [runOf, rolloutOf, traceOf] = [id('run-', `intDiv(number, ${ROLLOUTS_A_RUN})`), id('o', 'number'), id('t', 'number')];
  const sums = `concat('e', toString(number % 7)), (number % 100) / 100, 0, 1, ${NODES_A_ROLLOUT}, 5, 1`;
  await insert('rollout_summary', 'project, run, rollout, env, reward, _version, traces, nodes, turns, branches', `'default', ${runOf}, ${rolloutOf}, ${sums}`, rollouts);
  await insert('ids', 'project, kind, id, run, rollout, _partition, _offset', `'default', 'rollout', ${rolloutOf}, ${runOf}, ${rolloutOf}, 0, number`, rollouts);
  await insert('ids', 'project, kind, id, run, rollout, _partition, _offset', `'default', 'trace', ${traceOf}, ${runOf}, ${rolloutOf}, 0, number`, rollouts);
  await insert('log_index', 'status, type, project, run, rollout, trace, bytes, _partition, _offset', `'stored', 'node.appended', ${keys}, 100, 0, number`, count);
  await store.command(`INSERT INTO progress (task, _partition, _offset) VALUES ('summaries', 0, ${count - 1}), ('search', 0, ${count - 1})`);
  for (const table of ['nodes', 'node_payloads', 'node_search', 'rollout_summary', 'ids', 'log_index']) await store.command(`OPTIMIZE TABLE ${table} FINAL`, { timeoutMs: 600_000 });
} // prettier-ignore

type World = { readonly engine: TestEngine; readonly app: FastifyInstance; readonly rollouts: number };

async function open(count: number): Promise<World> {
  const engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default']);
  await fill(engine.store, count);
  const app = Fastify();
  for (const routes of [listRoutes, searchRoutes, graphRoutes]) await app.register(routes, { store: engine.store });
  return { engine, app, rollouts: Math.ceil(count / NODES_A_ROLLOUT) };
}

const pad = (n: number): string => String(n).padStart(8, '0');
/** Questions about the n-th of the rollouts. */
const QUESTIONS: Readonly<Record<string, (n: number) => string>> = {
  'list: first page of rollouts': () => '/v1/rollouts',
  'list: rollouts of a run by reward': (n) => `/v1/rollouts?run=run-${pad(Math.floor(n / ROLLOUTS_A_RUN))}&sort=-reward&count=exact`,
  'list: nodes of a trace': (n) => `/v1/nodes?trace=t${pad(n)}`,
  'fetch: a rollout by id': (n) => `/v1/rollouts/o${pad(n)}?run=run-${pad(Math.floor(n / ROLLOUTS_A_RUN))}`,
  'fetch: a node by id': (n) => `/v1/traces/t${pad(n)}/nodes/3`,
  'search: a rare word': (n) => `/v1/search?q=word${(n * NODES_A_ROLLOUT) % 9973}&run=run-${pad(Math.floor(n / ROLLOUTS_A_RUN))}`,
  'open: a graph': (n) => `/v1/traces/t${pad(n)}/graph?around=5`,
};

async function timed({ app, rollouts }: World, question: (n: number) => string, round: number): Promise<number> {
  const url = question((round * 7_919) % rollouts);
  const began = performance.now();
  const answer = await app.inject({ url });
  if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.body}`);
  return performance.now() - began;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

const small = await open(Math.max(1_000, Math.round(nodes / 100)));
const large = await open(nodes);
console.log(`${small.rollouts * NODES_A_ROLLOUT} and ${large.rollouts * NODES_A_ROLLOUT} nodes, ${rounds} rounds; p50 in ms`);
for (const [name, question] of Object.entries(QUESTIONS)) {
  const times: { readonly small: number[]; readonly large: number[] } = { small: [], large: [] };
  for (let round = 0; round < rounds + 3; round++) {
    const [a, b] = [await timed(small, question, round), await timed(large, question, round)];
    if (round < 3) continue; // the first ones fill caches
    times.small.push(a);
    times.large.push(b);
  }
  const [a, b] = [median(times.small), median(times.large)];
  console.log(`${name.padEnd(36)} ${a.toFixed(1).padStart(8)} ${b.toFixed(1).padStart(8)}   x ${(b / a).toFixed(2)}`);
}
for (const { engine, app } of [small, large]) {
  await app.close();
  await engine.close();
}
