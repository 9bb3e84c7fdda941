/**
 * Opens a trace of 350,000 nodes as a screen does: a window of its graph, its skeleton and the first screen of tokens, as Arrow, all asked for at once (the bar: 500 ms), then
 * pages through it. Two shapes: `chain`, one path with a fork every hundred nodes, and `bush`, where each node has two children. Nodes have 600 characters and 128 tokens.
 * Run: npm run bench -- trace-open [--nodes 350000] [--rounds 15] [--store <folder>]; with `--rounds 0` the store is only filled.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { tableFromIPC } from 'apache-arrow';
import { temporaryFolder } from '../e2e/server.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { openWorld, type World } from './query-world.ts';

const { values } = parseArgs({
  options: { nodes: { type: 'string', default: '350000' }, rounds: { type: 'string', default: '15' }, store: { type: 'string' } },
});
const nodes = Number(values.nodes);
const rounds = Number(values.rounds);
const BAR_MS = 500;
const TOKENS = 128;
const SCREEN_TOKENS = 4_000;
/** The parent of node `number`, above 0. */
const SHAPES = { chain: 'if(number % 100 = 0, number - 7, number - 1)', bush: 'intDiv(number - 1, 2)' } as const;
const OTHERS = 1_000;
/** Rows of one statement: about what a block of the projector holds. */
const STEP = 25_000;

async function fill(store: ColumnStore): Promise<void> {
  const text = "arrayStringConcat(arrayMap(i -> concat('w', toString(intDiv(100000, 1 + cityHash64(number, i) % 100000))), range(150)), ' ')";
  const ids = `arrayMap(i -> toUInt32(intDiv(150000, 1 + cityHash64(number, i, 'id') % 150000)), range(${TOKENS}))`;
  const logprobs = `arrayMap(i -> toFloat32(-(cityHash64(number, i, 'p') % 1000) / 1000), range(${TOKENS / 2}))`;
  const mask = `arrayMap(i -> toUInt8(i >= ${TOKENS / 2}), range(${TOKENS}))`;
  const shared = 'project, run, rollout, trace, `index`, parent, role, sampled, tokens, sampled_tokens, time, _partition, _offset';
  const insert = async (table: string, columns: string, cells: string, trace: string, count: number, parent: string, base: number): Promise<void> => {
    const odd = 'number % 2 = 1';
    const facts = `'default', 'run-1', concat('o-', '${trace}'), '${trace}', toUInt32(number), if(number = 0, NULL, ${parent}), if(${odd}, 'assistant', 'tool'), ${odd}, ${TOKENS}, ${TOKENS / 2}, toDateTime64(1700000000, 6, 'UTC') + toIntervalSecond(number), 0, ${base} + number`;
    for (let at = 0; at < count; at += STEP) {
      const some = `numbers(${at}, ${Math.min(STEP, count - at)})`;
      await store.command(`INSERT INTO ${table} (${shared}, ${columns}) SELECT ${facts}, ${cells} FROM ${some} SETTINGS async_insert = 0, max_insert_threads = 1, deduplicate_insert = 'disable'`, { timeoutMs: 600_000 });
    }
  };
  const traces = [...Object.entries(SHAPES).map(([name, parent]) => [name, nodes, parent] as const), ['another', OTHERS, 'number - 1'] as const];
  for (const [at, [name, count, parent]] of traces.entries()) {
    await insert('nodes', '_hash', "toFixedString('0123456789abcdef', 16)", name, count, parent, at * nodes);
    const calls = "if(number % 2 = 1, [concat('call-', toString(number))], []), if(number % 2 = 1, ['bash'], []), if(number % 2 = 1, ['{\"cmd\":\"ls\"}'], [])";
    await insert('node_payloads', 'tool_call_ids, tool_call_names, tool_call_arguments, text, token_ids, mask, logprobs, _streams', `${calls}, ${text}, ${ids}, ${mask}, ${logprobs}, 5`, name, count, parent, at * nodes);
    await store.command(`INSERT INTO ids (project, kind, id, run, rollout, _partition, _offset) VALUES ('default', 'trace', '${name}', 'run-1', 'o-${name}', 0, ${at})`);
  }
  // the end of the log: what lies before it counts
  await store.command(`INSERT INTO log_index (status, type, id, project, run, time, bytes, _partition, _offset) VALUES ('stored', 'node.appended', generateUUIDv4(), 'default', 'run-1', now64(6), 900, 0, ${traces.length * nodes})`);
} // prettier-ignore

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? NaN;
const worst = (times: readonly number[]): number => Math.max(...times);

async function get({ app }: World, url: string): Promise<Buffer> {
  const answer = await app.inject({ url });
  if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.body}`);
  return answer.rawPayload;
}

type Question = (round: number) => readonly string[];
const somewhere = (round: number): number => (round * 104_729 + 51) % nodes;
const tokensAt = (from: number): string => `from=${from}&to=${from + SCREEN_TOKENS}&format=arrow`;

const QUESTIONS: Readonly<Record<string, Question>> = {
  'open: window, skeleton, tokens at once': () => ['graph?around=0', 'skeleton', `tokens?leaf=${nodes - 1}&${tokensAt(0)}`],
  'open at the end': () => [`graph?around=${nodes - 1}`, 'skeleton', `tokens?leaf=${nodes - 1}&${tokensAt(0)}`],
  'window around a node': (round) => [`graph?around=${somewhere(round)}`],
  'children of a node': (round) => [`graph?children=${somewhere(round)}`],
  'path from a node': (round) => [`graph?path=${somewhere(round)}`],
  'path of 900 nodes': (round) => [`graph?path=${somewhere(round)}&limit=900`],
  'skeleton, all': () => ['skeleton'],
  'skeleton, 20,000 nodes': (round) => [`skeleton?from=${somewhere(round)}&to=${somewhere(round) + 20_000}`],
  'tokens from the start': () => [`tokens?leaf=${nodes - 1}&${tokensAt(0)}`],
  'tokens of a node and its path': (round) => [`tokens?leaf=${somewhere(round)}&${tokensAt(0)}`],
  'messages: 100 nodes, whole': (round) => [`?from=${somewhere(round)}&limit=100`],
};

async function ask(world: World, shape: string, name: string, question: Question): Promise<void> {
  const times: number[] = [];
  let bytes = 0;
  for (let round = -2; round < rounds; round++) {
    const urls = question(round + 2).map((rest) => `/v1/traces/${shape}${rest.startsWith('?') ? '' : '/'}${rest}`);
    const began = performance.now();
    const answers = await Promise.all(urls.map((url) => get(world, url)));
    if (round >= 0) times.push(performance.now() - began); // the first ones fill caches
    bytes = answers.reduce((sum, each) => sum + each.length, 0);
  }
  const isBelow = median(times) < BAR_MS;
  if (!isBelow) process.exitCode = 1;
  console.log(`${isBelow ? 'ok  ' : 'OVER'} ${shape.padEnd(6)} ${name.padEnd(40)} p50 ${median(times).toFixed(0).padStart(5)}, worst ${worst(times).toFixed(0).padStart(5)} ms, ${(bytes / 1024).toFixed(0)} KiB`);
} // prettier-ignore

const folder = values.store === undefined ? temporaryFolder('trace-open') : { path: values.store, remove: () => {} };
const world = await openWorld(join(folder.path, `trace-${nodes}`), fill);
if (rounds > 0) {
  for (const shape of Object.keys(SHAPES)) {
    const skeleton = tableFromIPC(await get(world, `/v1/traces/${shape}/skeleton`));
    if (skeleton.numRows !== nodes) throw new Error(`the skeleton has ${skeleton.numRows} rows`);
    for (const [name, question] of Object.entries(QUESTIONS)) await ask(world, shape, name, question);
  }
}
await world.close();
folder.remove();
