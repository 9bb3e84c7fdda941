/** Lineage and curves over a real log, projector and engine. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import Fastify, { type FastifyInstance } from 'fastify';
import { PackedArray } from '../../events/packed-array.ts';
import type { Draft } from '../events-for-tests.ts';
import type { CurvesAnswer } from '../curves/read-curves.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { curveRoutes } from '../routes/curves.ts';
import { lineageRoutes } from '../routes/lineage.ts';
import type { NodeLineage, RowLineage, StepLineage } from './read-lineage.ts';

let world: TestWorld;
let app: FastifyInstance;
const ids = { run: 'run-1', rollout: 'r1', trace: 't1' };

function node(index: number, parent: number | null, tokens: number): Draft {
  const streams = { ids: PackedArray.of(new Uint32Array(tokens)), mask: PackedArray.of(new Uint8Array(tokens)) };
  return { type: 'node.appended', ...ids, data: { index, parent, role: 'user', sampled: false, message: { role: 'user', content: 'x' }, tokens: streams } };
} // prettier-ignore

before(async () => {
  world = await openTestWorld();
  await world.write([node(0, null, 4), node(1, 0, 3), node(2, 1, 5), node(3, 0, 2)]);
  const batch = (n: number): object => ({ feed: 'f', timeline: 0, n, batchId: `b${n}` });
  await world.write(
    [
      { type: 'batch.cut', run: 'run-1', data: { ...batch(1), algorithm: 'grpo', counts: { rows: 2 } } },
      { type: 'batch.committed', run: 'run-1', data: { ...batch(1), holder: 'h', step: 1 } },
      { type: 'batch.cut', run: 'run-1', data: { ...batch(2), algorithm: 'grpo', counts: { rows: 3 } } },
      { type: 'batch.committed', run: 'run-1', data: { ...batch(2), holder: 'h', step: 2 } },
    ],
    'feeds',
  );
  const row = (n: number, id: string, leaf: number, length: number, advantage: string): string =>
    `('default', 'f', 0, ${n}, '${id}', 'b${n}', 'run-1', 'r1', 't1', ${leaf}, 'e', ${length}, 2, ${advantage}, 32768, 0)`;
  await world.store.command(
    'INSERT INTO batch_rows (project, feed, timeline, n, row_id, batch_id, run, rollout, trace, leaf, env, seq_len, trained, advantage, _partition, _offset) VALUES ' +
      [row(1, 'a', 2, 12, '0.5'), row(1, 'b', 3, 6, 'nan'), row(2, 'a', 2, 6, 'NULL')].join(', '),
  );
  app = Fastify();
  await app.register(lineageRoutes, { store: world.store });
  await app.register(curveRoutes, { store: world.store });
});
after(async () => {
  await app?.close();
  await world?.close();
});

async function get<T>(path: string, query: Record<string, string> = {}, status = 200): Promise<T> {
  const answer = await app.inject({ method: 'GET', url: `${path}?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, status, answer.body);
  return answer.json();
}

test('a step names its batches, and whether the counts of rows agree', async () => {
  const [first] = (await get<StepLineage>('/v1/lineage/steps/1')).batches;
  assert.deepEqual(
    { rows: first?.rows, tokens: first?.tokens, traces: first?.traces, rowsAtCut: first?.rowsAtCut, agrees: first?.agrees },
    { rows: '2', tokens: '18', traces: '1', rowsAtCut: '2', agrees: true },
  );
  const [second] = (await get<StepLineage>('/v1/lineage/steps/2', { feed: 'f' })).batches;
  assert.deepEqual([second?.rows, second?.rowsAtCut, second?.agrees], ['1', '3', false]);
  assert.deepEqual((await get<StepLineage>('/v1/lineage/steps/9')).batches, []);
});

test('a row is made of ranges of tokens; one that was cut short ends inside a node', async () => {
  const whole = await get<RowLineage>('/v1/lineage/rows/a', { feed: 'f', timeline: '0', n: '1' });
  assert.deepEqual(whole.nodes, [{ node: 0, from: 0, to: 4, whole: true }, { node: 1, from: 4, to: 7, whole: true }, { node: 2, from: 7, to: 12, whole: true }]); // prettier-ignore
  const cut = await get<RowLineage>('/v1/lineage/rows/a', { n: '2' });
  assert.deepEqual(cut.nodes, [{ node: 0, from: 0, to: 4, whole: true }, { node: 1, from: 4, to: 6, whole: false }]); // prettier-ignore
  assert.equal(cut.row.advantage, null);
  assert.deepEqual((await get<RowLineage>('/v1/lineage/rows/b')).row.advantage, { $float: 'NaN' });
  await get('/v1/lineage/rows/a', {}, 400);
  await get('/v1/lineage/rows/z', {}, 404);
});

test('a node names the rows and steps that trained it', async () => {
  const shared = await get<NodeLineage>('/v1/traces/t1/nodes/0/lineage');
  assert.deepEqual(shared.rows.map((row) => [row.n, row.rowId, row.step, row.from, row.to]), [['1', 'a', '1', 0, 4], ['1', 'b', '1', 0, 4], ['2', 'a', '2', 0, 4]]); // prettier-ignore
  const leaf = await get<NodeLineage>('/v1/traces/t1/nodes/2/lineage');
  assert.deepEqual(leaf.rows.map((row) => [row.n, row.from, row.to]), [['1', 7, 12], ['2', 6, 6]]); // prettier-ignore
  await get('/v1/traces/t1/nodes/9/lineage', {}, 404);
});

test('curves lose no row and no spike, whatever the pixels', async () => {
  const value = fc.oneof(fc.constantFrom<(number | null)[]>(null, NaN, Infinity, -Infinity, 1e308, -1e308), fc.integer({ min: -50, max: 50 }));
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ step: fc.nat(40), value }), { minLength: 1, maxLength: 30 }), fc.integer({ min: 1, max: 12 }), async (points, pixels) => {
      const run = `curve-${++runs}`;
      await world.write(points.map((point, at): Draft => ({ type: 'metric.recorded', run, time: 1_700_000_000_000_000 + point.step * 1_000, data: { scope: 'run', name: 'loss', value: point.value, extra: { at } } })));
      const answer = await get<CurvesAnswer>('/v1/curves', { of: 'metrics', run, name: 'loss', x: 'time', y: 'value', points: String(pixels) });
      const [curve] = answer.curves;
      assert.ok(curve !== undefined);
      const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0);
      const values = points.map((point) => point.value);
      const finite = values.filter((each): each is number => each !== null && Number.isFinite(each));
      assert.equal(sum(curve.count), finite.length);
      assert.equal(sum(curve.nulls), values.filter((each) => each === null).length);
      assert.equal(sum(curve.nan), values.filter((each) => Number.isNaN(each)).length);
      assert.equal(sum(curve.infinity) + sum(curve.minusInfinity), values.filter((each) => each === Infinity || each === -Infinity).length);
      if (finite.length > 0) {
        assert.equal(Math.max(...curve.max.filter((each): each is number => typeof each === 'number')), Math.max(...finite));
        assert.equal(Math.min(...curve.min.filter((each): each is number => typeof each === 'number')), Math.min(...finite));
      }
      const stretches = curve.xMin.map((low, at) => [Number(low), Number(curve.xMax[at])] as const);
      for (const [at, [low]] of stretches.entries()) if (at > 0) assert.ok(low > (stretches[at - 1] as readonly [number, number])[1]);
    }),
    { numRuns: 10, interruptAfterTimeLimit: 40_000 },
  );
  await get('/v1/curves', { of: 'metrics', x: 'name', y: 'value' }, 400);
  const none = await get<CurvesAnswer>('/v1/curves', { of: 'metrics', run: 'none', x: 'time', y: 'value' });
  assert.deepEqual([none.from, none.curves, none.series], [null, [], { found: 0, shown: 0 }]);
  const named = await get<CurvesAnswer>('/v1/curves', { of: 'rollouts', x: 'step', y: 'reward,reward.exact', by: 'env' });
  assert.ok(named.curves.length >= 0);
}); // prettier-ignore
