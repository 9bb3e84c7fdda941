/** A store of many rollouts for bench/query.bench.ts, filled by the engine itself: ten nodes a rollout, eight rollouts a task, a thousand rollouts a run. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyInstance } from 'fastify';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { migrate } from '../migrations/migrate.ts';
import { analyticsRoutes } from '../query/routes/analytics.ts';
import { graphRoutes } from '../query/routes/graphs.ts';
import { listRoutes } from '../query/routes/lists.ts';
import { searchRoutes } from '../query/routes/search.ts';
import { traceRoutes } from '../query/routes/traces.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { startEngine } from '../store/columns/engine/supervise.ts';
import { ensureProject } from '../store/columns/views/ensure-project.ts';

export const NODES_A_ROLLOUT = 10;
export const ROLLOUTS_A_RUN = 1_000;
export const ROLLOUTS_A_TASK = 8;
/** Words that stand in one node of so many. */
export const RARE_WORDS = 9_973;
const SCHEMA = { database: 'tapedeck', cluster: null, compression: 'by part size' } as const;
/** Statements a table is filled by, whatever its size: each makes parts, which the engine merges as it sees fit, as it does those of the projector. */
const STATEMENTS = 40;
const MERGED_MS = 120_000;

export type World = { readonly app: FastifyInstance; readonly store: ColumnStore; close(): Promise<void> };
export type QueryWorld = World & { readonly rollouts: number };

/** Ids as numbers of one width, so that their order is that of the numbers. */
const id = (letter: string, n: string): string => `concat('${letter}', leftPad(toString(${n}), 8, '0'))`;

/** A few words with frequencies as in text, one that is in every node, one that is rare. */
const TEXT = `concat('some text of node ', toString(number), ' which says w', toString(intDiv(100000, 1 + cityHash64(number, 1) % 100000)), ' and w', toString(intDiv(100000, 1 + cityHash64(number, 2) % 100000)), ' and w', toString(intDiv(100000, 1 + cityHash64(number, 3) % 100000)), ' and word', toString(number % ${RARE_WORDS}))`;

async function fill(store: ColumnStore, rollouts: number): Promise<void> {
  const nodes = rollouts * NODES_A_ROLLOUT;
  const insert = async (table: string, columns: string, select: string, rows: number): Promise<void> => {
    const step = Math.ceil(rows / STATEMENTS);
    for (let at = 0; at < rows; at += step) {
      const some = `numbers(${at}, ${Math.min(step, rows - at)})`;
      await store.command(`INSERT INTO ${table} (${columns}) SELECT ${select} FROM ${some} SETTINGS async_insert = 0, max_insert_threads = 1, deduplicate_insert = 'disable'`, { timeoutMs: 600_000 });
    }
  };
  const time = "toDateTime64(1700000000, 6, 'UTC') + toIntervalSecond(number)";
  const keys = (rollout: string): string => `'default', ${id('run-', `intDiv(${rollout}, ${ROLLOUTS_A_RUN})`)}, ${id('o', rollout)}`;
  const ofNode = keys(`intDiv(number, ${NODES_A_ROLLOUT})`);
  const inTrace = 'project, run, rollout, trace';
  const trace = id('t', `intDiv(number, ${NODES_A_ROLLOUT})`);
  const index = `toUInt32(number % ${NODES_A_ROLLOUT})`;
  const facts = `${inTrace}, \`index\`, parent, role, sampled, tokens, sampled_tokens, time, _partition, _offset`;
  const cells = `${ofNode}, ${trace}, ${index}, if(${index} = 0, NULL, ${index} - 1), if(${index} % 2 = 0, 'user', 'assistant'), ${index} % 2 = 1, 20, 10, ${time}, 0, number`;
  await insert('nodes', `${facts}, _hash`, `${cells}, toFixedString('0123456789abcdef', 16)`, nodes);
  await insert('node_payloads', `${facts}, text`, `${cells}, ${TEXT}`, nodes);
  await insert('node_search', `${inTrace}, \`index\`, role, text, _partition, _offset`, `${ofNode}, ${trace}, ${index}, 'user', ${TEXT}, 0, number`, nodes);
  await insert('log_index', `status, type, ${inTrace}, time, bytes, _partition, _offset`, `'stored', 'node.appended', ${ofNode}, ${trace}, ${time}, 100, 0, number`, nodes);
  const task = `toString(intDiv(number % ${ROLLOUTS_A_RUN}, ${ROLLOUTS_A_TASK}))`;
  const group = `concat('g', toString(intDiv(number, ${ROLLOUTS_A_TASK})))`;
  const [ofRollout, traceOf] = [keys('number'), id('t', 'number')];
  const outcome = `${group}, concat('e', toString(number % 7)), ${task}, hex(sipHash128(${task})), toFloat64(cityHash64(number) % 3 = 0), 0, ${time}`;
  const outcomes = '`group`, env, task_key, task_hash, reward, _version, started';
  await insert('rollout_summary', `project, run, rollout, ${outcomes}, traces, nodes, turns, branches`, `${ofRollout}, ${outcome}, 1, ${NODES_A_ROLLOUT}, 5, 1`, rollouts);
  await insert('trace_summary', `${inTrace}, \`group\`, env, task_key, reward, _version, started, nodes, turns, branches`, `${ofRollout}, ${traceOf}, ${outcome.replace(` hex(sipHash128(${task})),`, '')}, ${NODES_A_ROLLOUT}, 5, 1`, rollouts);
  const runOf = id('run-', 'number');
  const life = "if(number % 2 = 0, 'rollout.started', 'rollout.ended')";
  const started = (value: string): string => `if(number % 2 = 0, ${value.replaceAll('number', 'intDiv(number, 2)')}, NULL)`;
  await insert('rollout_events', 'project, run, rollout, id, type, `group`, env, task_key, task_hash, ok, time, _partition, _offset', `${keys('intDiv(number, 2)')}, generateUUIDv4(), ${life}, ${started(group)}, ${started("concat('e', toString(number % 7))")}, ${started(task)}, ${started(`hex(sipHash128(${task}))`)}, if(number % 2 = 1, true, NULL), ${time}, 0, intDiv(number, 2) * ${NODES_A_ROLLOUT} + number % 2`, rollouts * 2);
  await insert('reward_events', `${inTrace.replace('trace', 'scope, trace')}, _node, name, id, score, weight, time, _partition, _offset`, `${ofRollout}, 'trace', ${traceOf}, 4294967295, 'correct', generateUUIDv4(), toFloat64(cityHash64(number) % 3 = 0), 1, ${time}, 0, number * ${NODES_A_ROLLOUT}`, rollouts);
  for (const [kind, one] of [['rollout', id('o', 'number')], ['trace', traceOf]] as const) await insert('ids', 'project, kind, id, run, rollout, _partition, _offset', `'default', '${kind}', ${one}, ${ofRollout.slice("'default', ".length)}, 0, number * ${NODES_A_ROLLOUT}`, rollouts);
  await insert('ids', 'project, kind, id, run, rollout, _partition, _offset', `'default', 'run', ${runOf}, ${runOf}, '0', 0, number * ${ROLLOUTS_A_RUN * NODES_A_ROLLOUT}`, Math.ceil(rollouts / ROLLOUTS_A_RUN));
  await store.command(`INSERT INTO progress (task, _partition, _offset) VALUES ('summaries', 0, ${nodes - 1}), ('search', 0, ${nodes - 1})`);
} // prettier-ignore

/** Waits until the engine has no merges left to do. */
async function merged(store: ColumnStore): Promise<void> {
  const until = performance.now() + MERGED_MS;
  for (let quiet = 0; quiet < 3 && performance.now() < until;) {
    const [row] = await store.rows<{ n: string }>('SELECT count() AS n FROM system.merges');
    quiet = Number(row?.n) === 0 ? quiet + 1 : 0;
    await sleep(1_000);
  }
}

/** The routes over the store in `directory`, which `fill` fills when it is new. */
export async function openWorld(directory: string, fill: (store: ColumnStore) => Promise<void>): Promise<World> {
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const engine = await startEngine({ dataDir: join(directory, 'engine'), nice: 0, slots: 6, log: silent, clock: systemClock, random: systemRandom });
  const connect = (database: string): ColumnStore => connectColumns({ ...engine, url: engine.url, database, clock: systemClock, random: systemRandom });
  const admin = connect('default');
  await migrate(admin, { ...SCHEMA, clock: systemClock });
  await admin.close();
  const store = connect(SCHEMA.database);
  const filled = join(directory, 'filled');
  if (!existsSync(filled)) {
    await ensureProject(store, 'default', SCHEMA);
    await fill(store);
    await merged(store);
    writeFileSync(filled, '');
  }
  const app = Fastify();
  for (const routes of [listRoutes, searchRoutes, graphRoutes, traceRoutes, analyticsRoutes]) await app.register(routes, { store });
  const close = async (): Promise<void> => {
    await app.close();
    await store.close();
    await engine.close();
  };
  return { app, store, close };
} // prettier-ignore

/** The store with so many nodes in `directory`. */
export async function openQueryWorld(directory: string, nodes: number): Promise<QueryWorld> {
  const rollouts = Math.ceil(nodes / NODES_A_ROLLOUT);
  return { ...(await openWorld(directory, (store) => fill(store, rollouts))), rollouts };
}
