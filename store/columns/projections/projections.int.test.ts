import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { ByteWriter } from '../../../base/byte-writer.ts';
import { systemClock } from '../../../base/clock.ts';
import { cborToJson } from '../../../events/codec/cbor-to-json.ts';
import { contentHash } from '../../../events/content-hash.ts';
import { readEvent } from '../../../events/read-event.ts';
import { EVENT_TYPES } from '../../../events/registry.ts';
import { migrate } from '../../../migrations/migrate.ts';
import type { ColumnStore } from '../column-store.ts';
import { fillSearchIndex } from '../search-index.ts';
import { stringLiteral } from '../sql-literal.ts';
import { refreshSummaries } from '../summaries.ts';
import { openTestStore, type TestStore } from '../test-store.ts';
import { CATALOGUE } from '../views/catalogue.ts';
import { ensureProject } from '../views/ensure-project.ts';
import { nodes as nodesView } from '../views/trace-views.ts';
import { viewSelect } from '../views/view.ts';
import { createBlock } from './block.ts';
import { ledger, NO_REASON } from './ledger.ts';
import { locate } from './locate.ts';
import { project } from './project.ts';
import { insertEvents, storedVersion, storedWorld, storeEvent, summarise, WORLD } from './test-world.ts';

const DATABASE = 'store';
/** All names have one length: a record's size is part of the answers. */
const nameOf = (run: number): string => `p-${String(run).padStart(4, '0')}`;
const BASE = nameOf(0);
let engine: TestStore;
let store: ColumnStore;
let view: ColumnStore;

before(async () => {
  engine = await openTestStore();
  store = engine.connect(DATABASE);
  await migrate(engine.connect('default'), { database: DATABASE, cluster: null, clock: systemClock });
  view = engine.connect(await ensureProject(store, BASE, { database: DATABASE, cluster: null }));
  const block = await insertEvents(store, storedWorld(BASE));
  await summarise(store, block.touched);
  await fillSearchIndex(store);
});
after(() => engine.close());

type Row = Record<string, unknown>;

/** Every view's rows, read without the project's own database: the select behind the view. */
async function answers(project: string, skip: (column: string, name: string) => boolean): Promise<Record<string, Row[]>> {
  const source = { db: `${DATABASE}.`, project: stringLiteral(project) };
  const found: Record<string, Row[]> = {};
  for (const one of CATALOGUE) {
    const columns = one.columns.filter(({ name }) => name !== 'project' && !skip(name, one.name)).map(({ name }) => `\`${name}\``);
    const rows = await store.rows<Row>(`SELECT ${columns.join(', ')} FROM (${viewSelect(one, source)})`);
    found[one.name] = rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  return found;
}

async function one(sql: string): Promise<Row> {
  const rows = await view.rows<Row>(sql);
  assert.equal(rows.length, 1, sql);
  return rows[0] as Row;
}

test('the world holds every event type, and every event is in the books', async () => {
  const types = new Set<string>(WORLD.map((draft) => draft.type));
  assert.deepEqual(
    Object.keys(EVENT_TYPES).filter((type) => !types.has(type)),
    [],
  );
  const stored = await view.rows<Row>('SELECT type, status FROM events');
  assert.equal(stored.length, WORLD.length);
  assert.ok(stored.every((row) => row['status'] === 'stored'));
  const rows = await answers(BASE, () => false);
  assert.deepEqual(
    Object.keys(rows).filter((name) => rows[name]?.length === 0),
    [],
  );
});

test('messages come back whole: text, reasoning, parts, slashes, control characters, lone surrogates', async () => {
  const rows = await view.rows<Row>(
    "SELECT index, text, reasoning, message, tool_calls, tool_call_id FROM nodes WHERE trace = 'trace-1' ORDER BY index",
  );
  const sent = WORLD.filter((draft) => draft.type === 'node.appended' && draft.trace === 'trace-1').map(
    (draft) => (draft.data as { message: Row }).message,
  );
  assert.deepEqual(
    rows.map((row) => JSON.parse(row['message'] as string)),
    sent,
  );
  assert.deepEqual(
    rows.map((row) => Object.keys(JSON.parse(row['message'] as string))),
    sent.map((message) => Object.keys(message)),
  );
  assert.equal(rows[0]?.['text'], sent[0]?.['content']);
  assert.equal(rows[1]?.['reasoning'], 'hm / "so"');
  assert.equal(rows[2]?.['text'], 'part one\npart two');
  assert.deepEqual(rows[1]?.['tool_calls'], [{ id: 'c1', name: 'search', arguments: '{"q": 1}' }]);
  assert.equal(rows[2]?.['tool_call_id'], 'c1');
  assert.ok(!String(rows[0]?.['message']).includes('\\/'));
  const lone = Buffer.concat([Buffer.from('lone '), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from(' surrogate')]);
  assert.deepEqual(await one("SELECT hex(text) AS bytes FROM nodes WHERE trace = 'trace-1' AND index = 3"), {
    bytes: lone.toString('hex').toUpperCase(),
  });
});

test('token streams: absent is not empty, NaN, infinities and -0 survive, unknown fields are kept', async () => {
  const rows = await view.rows<Row>("SELECT tokens, sampled_tokens, streams, token_ids, mask, is_content FROM nodes WHERE trace = 'trace-1' ORDER BY index");
  assert.deepEqual(rows, [
    { tokens: '3', sampled_tokens: '0', streams: ['ids', 'is_content'], token_ids: [1, 2, 2_147_483_647], mask: [0, 0, 0], is_content: [0, 1, 1] },
    { tokens: '3', sampled_tokens: '2', streams: ['ids', 'logprobs', 'reference_logprobs', 'advantages', 'loss_weights', 'policy_runs'], token_ids: [9, 10, 11], mask: [0, 1, 1], is_content: [] },
    { tokens: '0', sampled_tokens: '0', streams: ['ids'], token_ids: [], mask: [], is_content: [] },
    { tokens: null, sampled_tokens: null, streams: [], token_ids: [], mask: [], is_content: [] },
  ]);
  const node = await one("SELECT logprobs, reference_logprobs, toString(reference_logprobs) AS text, loss_weights, policy_runs, policy_version, extra, rest FROM nodes WHERE trace = 'trace-1' AND index = 1");
  assert.deepEqual(node, {
    logprobs: [-0.25, 'nan'],
    reference_logprobs: ['-inf', -0],
    text: '[-inf,-0]',
    loss_weights: { rl: [0, 1, 1], ce: [0, 0, 0] },
    policy_runs: [{ length: '1', version: '4' }, { length: '1', version: '5' }],
    policy_version: '5',
    extra: '{"k":[1,null]}',
    rest: '{"strange":9223372036854775808}',
  });
}); // prettier-ignore

test('summaries: rewards with a NULL are NULL, weight 0 does not count as missing, the latest score counts', async () => {
  const rows = await view.rows<Row>('SELECT trace, reward, rewards_missing, truncated, ok, input_tokens, output_tokens, turns, branches, nodes, calls, cost, errors, error_type, env, task_key, `group` FROM traces ORDER BY trace');
  assert.deepEqual(rows, [
    { trace: 'trace-1', reward: 1.2, rewards_missing: '0', truncated: true, ok: true, input_tokens: '4', output_tokens: '2', turns: '2', branches: '2', nodes: '4', calls: '2', cost: 0.225, errors: '0', error_type: null, env: 'wiki', task_key: 'q7', group: 'group-1' },
    { trace: 'trace-2', reward: null, rewards_missing: '1', truncated: true, ok: false, input_tokens: '7', output_tokens: '8', turns: '1', branches: '1', nodes: '1', calls: '1', cost: null, errors: '2', error_type: 'ToolsetError', env: 'wiki', task_key: 'q7', group: 'group-1' },
  ]);
  const rollouts = await view.rows<Row>('SELECT rollout, reward, stop_condition, cancelled, policy_version_min, policy_version_max, step, fork_node, traces FROM rollouts ORDER BY rollout');
  assert.deepEqual(rollouts, [
    { rollout: 'rollout-1', reward: 1.2 + 1.4, stop_condition: 'agent_completed', cancelled: null, policy_version_min: '4', policy_version_max: '5', step: '3', fork_node: null, traces: '1' },
    { rollout: 'rollout-2', reward: null, stop_condition: null, cancelled: 'stale', policy_version_min: null, policy_version_max: null, step: null, fork_node: 1, traces: '1' },
  ]);
  assert.deepEqual(await one('SELECT size, reason, rollouts, reward_mean, reward_std, solved, task_key, env FROM groups'), { size: '2', reason: 'complete', rollouts: '2', reward_mean: 2.5999999999999996, reward_std: null, solved: '1', task_key: 'q7', env: 'wiki' });
}); // prettier-ignore

test('runs, latest and history, feeds and lineage read as documented', async () => {
  assert.deepEqual(await one("SELECT kind, status, tags, config, metrics, ended IS NOT NULL AS ended FROM runs"), { kind: 'train', status: 'completed', tags: ['a', 'b'], config: '{"lr":0.000001,"big":1152921504606846976}', metrics: '{"best":1}', ended: 1 });
  assert.deepEqual(await one("SELECT score, weight, node FROM rewards WHERE trace = 'trace-1' AND scope = 'trace' AND name = 'correct'"), { score: 1, weight: 1, node: null });
  assert.deepEqual(await one("SELECT toUInt8(count()) AS n FROM rewards_history WHERE name = 'correct' AND scope = 'trace'"), { n: 4 });
  assert.deepEqual(await one("SELECT value FROM metrics WHERE name = 'loss'"), { value: null });
  assert.deepEqual(await one("SELECT value FROM metrics WHERE name = 'tps'"), { value: 'inf' });
  assert.deepEqual(await one('SELECT uri FROM policies'), { uri: 's3://w/5b' });
  assert.deepEqual(await view.rows('SELECT n, batch_id, algorithm, policy_version, committed IS NULL AS open, step, abandoned FROM batches ORDER BY n'), [
    { n: '1', batch_id: 'batch-1', algorithm: 'grpo', policy_version: '4', open: 0, step: '1', abandoned: false },
    { n: '2', batch_id: 'batch-2', algorithm: 'grpo', policy_version: null, open: 1, step: null, abandoned: true },
  ]);
  assert.deepEqual(await view.rows('SELECT node, result_node, error_type FROM tools ORDER BY node'), [{ node: 1, result_node: 2, error_type: 'ToolsetError' }, { node: null, result_node: null, error_type: null }]);
  assert.deepEqual(await one("SELECT run, rollout FROM ids WHERE id = 'trace-2'"), { run: 'run-1', rollout: 'rollout-2' });
  assert.deepEqual(await one("SELECT trace, index FROM search WHERE hasToken(text, 'surrogate')"), { trace: 'trace-1', index: 3 });
}); // prettier-ignore

/** The tables whose keys are places in the log; they hold one run of the property at a time. */
async function forgetPlaces(): Promise<void> {
  for (const table of ['log_index', 'event_ids', 'dead_letters', 'progress']) await store.command(`TRUNCATE TABLE ${table}`);
}

let runs = 1;

test('any doubling, cutting and order of blocks gives the same answers', async () => {
  const expected = await answers(BASE, () => false);
  const plan = fc.record({
    cuts: fc.array(fc.uniqueArray(fc.nat({ max: WORLD.length - 1 }), { minLength: 1, maxLength: WORLD.length }), {
      minLength: 1,
      maxLength: 3,
    }),
    whole: fc.nat({ max: 3 }),
    early: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(plan, async ({ cuts, whole, early }) => {
      await forgetPlaces();
      const project = nameOf(runs++);
      const world = storedWorld(project);
      const blocks = cuts.map((cut) => cut.map((i) => world[i] as (typeof world)[number]));
      blocks.splice(whole, 0, world.toReversed());
      for (const events of blocks) {
        const block = await insertEvents(store, events);
        if (early) await summarise(store, block.touched);
      }
      await refreshSummaries(store, { rollouts: [[project, 'run-1', 'rollout-1'], [project, 'run-1', 'rollout-2']] }, { version: (await storedVersion(store)) + 1 }); // prettier-ignore
      while ((await fillSearchIndex(store, { maxEvents: 20 })) > 0);
      assert.deepEqual(await answers(project, () => false), expected);
    }),
    { numRuns: 4, endOnFailure: true },
  );
});

test('late rewards, links and ends: any order of arrival that keeps each series gives the same state', async () => {
  const isPlace = (column: string): boolean => ['partition', 'offset', 'first_offset'].includes(column);
  await forgetPlaces();
  const base = nameOf(runs++);
  await summarise(store, (await insertEvents(store, storedWorld(base))).touched);
  const expected = await answers(base, isPlace);
  delete expected['search'];
  /** Events that stand for one value over time keep their order; everything else may come at any time. */
  const series = WORLD.map((draft, i) => {
    const { scope, name, step, version } = draft.data as Row;
    const isSeries = /^(reward|metric|error|policy|trainer\.stepped|batch|feed)/.test(draft.type);
    return isSeries ? [draft.type.split('.')[0], draft.rollout, draft.trace, scope, name, step, version].join('/') : String(i);
  });
  const weights = fc.array(fc.nat(), { minLength: WORLD.length, maxLength: WORLD.length });
  await fc.assert(
    fc.asyncProperty(weights, async (weight) => {
      await forgetPlaces();
      const order = WORLD.map((_, i) => i).toSorted((a, b) => (weight[a] as number) - (weight[b] as number));
      const queues = new Map<string, number[]>();
      series.forEach((name, i) => queues.set(name, [...(queues.get(name) ?? []), i]));
      const drafts = order.map((i) => WORLD[(queues.get(series[i] as string) as number[]).shift() as number] as (typeof WORLD)[number]);
      const project = nameOf(runs++);
      await summarise(store, (await insertEvents(store, storedWorld(project, drafts))).touched);
      const found = await answers(project, isPlace);
      delete found['search'];
      assert.deepEqual(found, expected);
    }),
    { numRuns: 4, endOnFailure: true },
  );
});

test('any message comes back whole, whatever its keys, order and characters', async () => {
  const key = fc.oneof(
    fc.constantFrom('role', 'content', 'reasoning', 'reasoning_content', 'tool_calls', 'name', '__proto__', 'a"b', 'é'),
    fc.string({ unit: 'binary', maxLength: 30 }),
  );
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.constantFrom('', '/', '\\/', '</script>', '\u2028\u2029', '\ud800', '\u0000\u001f\u007f', '🦜"\\\n'),
  );
  const value = fc.oneof(
    text,
    fc.integer(),
    fc.constantFrom(null, true, 0.5),
    fc.array(text, { maxLength: 3 }),
    fc.dictionary(key, text, { maxKeys: 3 }),
  );
  const message = fc
    .uniqueArray(fc.tuple(key, value), { selector: ([name]) => name, maxLength: 6 })
    .map((entries) => Object.fromEntries(entries));
  const messages = fc.sample(message, 400);
  const project = nameOf(runs++);
  const drafts = messages.map((one, index) => ({
    type: 'node.appended' as const,
    ...MESSAGE_IDS,
    data: { index, role: 'user', sampled: false, message: one },
  }));
  const events = drafts.map((draft, offset) => storeEvent(draft, { project, partition: 1, offset, seed: offset + 1 }));
  await insertEvents(store, events);
  const found = await store.rows<{ index: number; message: string; text: string | null }>(
    viewSelect(nodesView, { db: `${DATABASE}.`, project: stringLiteral(project) }).replace(/ SETTINGS.*/, ' ORDER BY t.`index`'),
  );
  const wanted = events.map(({ slice }) => {
    const out = new ByteWriter();
    const range = locate(slice, ['data', 'message']);
    assert.ok(range);
    cborToJson(slice, range.start, range.end, out, { streams: false });
    return JSON.stringify(JSON.parse(out.view().toString('utf8')));
  });
  assert.deepEqual(
    found.map((row) => JSON.stringify(JSON.parse(row.message))),
    wanted,
  );
});

const MESSAGE_IDS = { run: 'run-1', rollout: 'rollout-1', trace: 'trace-1' };

test('every golden fixture is projected, and its rows arrive', async () => {
  await forgetPlaces();
  const folder = new URL('../../../events/fixtures/v1/', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('.cbor'));
  const block = createBlock();
  const offsets = { events: 0, feeds: 0 };
  for (const file of files) {
    const slice = readFileSync(new URL(file, folder));
    const read = readEvent(slice);
    assert.ok(read.ok, file);
    const { topic } = EVENT_TYPES[read.value.type];
    const stored = { event: read.value, slice, topic, partition: 2, offset: offsets[topic]++, hash: contentHash(slice) };
    const before = block.tables.reduce((sum, table) => sum + table.rows, 0);
    project(stored, block);
    assert.ok(block.tables.reduce((sum, table) => sum + table.rows, 0) > before, file);
    ledger(stored, 'stored', NO_REASON, block);
  }
  await insertEvents(store, [], block);
  const [row] = await store.rows<{ n: string }>('SELECT count() AS n FROM log_index FINAL');
  assert.equal(Number(row?.n), files.length);
});
