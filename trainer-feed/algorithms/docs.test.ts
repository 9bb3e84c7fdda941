/** docs/algorithms.md and docs/custom-algorithms.md say what is so. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isTapedeckError } from '../../base/errors.ts';
import { cut } from '../cut/cut.ts';
import { REASONS } from '../cut/exclusion.ts';
import { advantagesOf, CONTEXT, groupOf, plainGroup, scoredBy, specOf } from '../cut/ready-groups.arbitrary.ts';
import { loadRegistry } from './custom-modules.ts';
import { withTable } from './parameter-table.ts';
import { PRESET_REGISTRY, PRESETS } from './registry.ts';
import { resolveSpec } from './spec.ts';

const DOCS = join(import.meta.dirname, '../../docs');
const page = await readFile(join(DOCS, 'algorithms.md'), 'utf8');
const custom = await readFile(join(DOCS, 'custom-algorithms.md'), 'utf8');

describe('docs/algorithms.md', () => {
  it('has the parameters of the presets (node trainer-feed/algorithms/parameter-table.ts --write)', () =>
    assert.equal(withTable(page), page));

  it('has a row for every preset, and every reason', () => {
    for (const { name } of PRESETS) assert.match(page, new RegExp(`^\\| \`${name}\``, 'm'));
    for (const [kind, reasons] of Object.entries(REASONS))
      for (const reason of reasons) assert.ok(page.includes(`\`${reason}\``), `${kind} ${reason}`);
  });

  it('has an example that is a specification', () => {
    const example = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
    const resolved = resolveSpec(JSON.parse(example), PRESET_REGISTRY);
    assert.ok(resolved.ok, resolved.ok ? '' : resolved.error.map((p) => p.message).join());
  });
});

describe('docs/custom-algorithms.md', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tapedeck-algorithms-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const moduleOf = async (name: string, source: string): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, source);
    return path;
  };
  const load = async (name: string, source: string) => loadRegistry(PRESET_REGISTRY, [await moduleOf(name, source)]);

  it('has an example that runs', async () => {
    const registry = await load('rank.mjs', /```js\n([\s\S]*?)```/.exec(custom)?.[1] ?? '');
    const rank = (params: object) => specOf({ others: { score: { algorithm: 'rank', params: { ...params } } } }, registry);
    assert.deepEqual(advantagesOf(rank({}), [plainGroup([10, 1000, 10, 11])])[0], [-2 / 3, 1, -2 / 3, 1 / 3].map(Math.fround));
    assert.deepEqual(advantagesOf(rank({ power: 2 }), [plainGroup([0, 1, 2])])[0], [-1, 0, 1]);
    assert.deepEqual(cut(rank({}), [plainGroup([1, -101])], CONTEXT).groups.map((g) => [g.outcome, g.reason]), [['failed', 'reward_too_low']]); // prettier-ignore
    const bad = resolveSpec({ maxRowTokens: 9, others: { score: { algorithm: 'rank', params: { power: -1 } } } }, registry);
    assert.equal(bad.ok ? '' : bad.error[0]?.field, 'others.score.params.power');
    const echo = specOf({ others: { score: { algorithm: 'echo', params: { filter: 'no_sevens', roles: { tool: 1 } } } } }, registry);
    const nodes = [{ role: 'user', context: 1 }, { sampled: 1 }, { role: 'tool', ids: Uint32Array.of(6, 7), mask: new Uint8Array(2) }];
    assert.deepEqual([...(cut(echo, [groupOf([{ reward: 1, nodes }, { reward: 0 }])], CONTEXT).rows[0]?.ceWeights ?? [])], [0, 0, 1, 0]);
  });

  it('names the module and what is wrong with it', async () => {
    const refused = async (name: string, source: string, why: RegExp): Promise<void> => {
      await assert.rejects(load(name, source), (error) => isTapedeckError(error, 'config_invalid') && error.message.includes(name) && why.test(error.message));
    };
    const algorithm = (fields: string) => `export default ({ z, RL_STREAMS }) => ({ algorithms: [{ name: 'x', version: 1, scope: 'group', params: z.strictObject({}), streams: () => RL_STREAMS, score: () => ({ values: null }), ${fields} }] })`;
    await refused('syntax.mjs', 'export default {', /cannot be loaded/);
    await refused('throws.mjs', 'export default () => { throw new Error("no luck") }', /no luck/);
    await refused('nothing.mjs', '', /default export/);
    await refused('name.mjs', algorithm("name: 'Bad Name'"), /algorithms\.0\.name/);
    await refused('params.mjs', algorithm('params: 7'), /algorithms\.0\.params: must be a zod schema/);
    await refused('score.mjs', algorithm('score: 7'), /algorithms\.0\.score: must be a function/);
    await refused('taken.mjs', algorithm("name: 'grpo'"), /the algorithm name grpo is taken/);
    await assert.rejects(loadRegistry(PRESET_REGISTRY, [join(folder, 'absent.mjs')]), (error) => isTapedeckError(error, 'config_invalid'));
    const batch = await load('batch.mjs', algorithm("scope: 'batch'"));
    const resolved = resolveSpec({ maxRowTokens: 9, others: { score: { algorithm: 'x' } } }, batch);
    assert.match(resolved.ok ? '' : (resolved.error[0]?.message ?? ''), /scope batch but no function finish/);
  });

  it('is a fault of the specification where it throws or gives no weights while it is bound', async () => {
    const algorithm = (fields: string) => `export default ({ z, RL_STREAMS }) => ({ algorithms: [{ name: 'x', version: 1, scope: 'group', params: z.strictObject({}), streams: () => RL_STREAMS, score: () => ({ values: null }), ${fields} }] })`;
    const boom = '() => { throw new Error("not today") }';
    const cases = [[`streams: ${boom}`, /x threw: Error: not today/], [`scope: ${boom}`, /not today/], [`reduction: ${boom}`, /not today/], [`params: z.strictObject({}).transform(${boom})`, /not today/], ['streams: () => undefined', /streams must give a weight/], ['streams: () => ({ rl: NaN, ce: 0, refKl: 0 })', /streams must give a weight/]] as const;
    for (const [i, [fields, why]] of cases.entries()) {
      const registry = await load(`bound-${i}.mjs`, algorithm(fields));
      const resolved = resolveSpec({ maxRowTokens: 9, others: { score: { algorithm: 'x' } } }, registry);
      assert.match(resolved.ok ? '' : (resolved.error[0]?.message ?? ''), why);
      assert.equal(resolveSpec({ maxRowTokens: 9 }, registry).ok, true);
    }
  });

  it('lets a module of batch scope see the frozen members', async () => {
    const registry = await load('mean.mjs', `export default ({ z, mean, RL_STREAMS }) => ({ algorithms: [{ name: 'batch_mean', version: 1, scope: 'batch', params: z.strictObject({}), streams: () => RL_STREAMS,
      score: ({ rewards }) => ({ values: rewards }),
      finish: (members) => { const m = mean(Float64Array.from(members, (x) => x.value)); return { values: Float64Array.from(members, (x) => x.value - m), statistics: { mean: m } }; } }] })`);
    const spec = specOf({ others: { score: { algorithm: 'batch_mean' } } }, registry);
    const groups = [plainGroup([1, 0], [2, 2], { group: 'a' }), plainGroup([4, 3], [2, 2], { group: 'b', readyAt: 1 })];
    assert.deepEqual(advantagesOf(spec, groups), [[-1, -2], [2, 1]]);
    assert.deepEqual(cut(spec, groups, CONTEXT).statistics.populations.map((p) => [p.algorithm, p.statistics]), [['batch_mean', { mean: 2 }]]);
    const throws = await load('late.mjs', `export default ({ z, RL_STREAMS }) => ({ algorithms: [{ name: 'late', version: 1, scope: 'batch', params: z.strictObject({}), streams: () => RL_STREAMS, score: ({ rewards }) => ({ values: rewards }), finish: () => { throw new Error('too late'); } }] })`);
    const mixed = specOf({ envs: { bad: { score: { algorithm: 'late' } }, good: {} } }, throws);
    const { groups: outcomes, excluded, rows } = cut(mixed, [plainGroup([1, 0], [2, 2], { group: 'a', env: 'bad' }), plainGroup([1, 0], [2, 2], { group: 'b', env: 'good', readyAt: 1 })], CONTEXT);
    assert.deepEqual(outcomes.map((g) => [g.outcome, g.reason]), [['failed', 'algorithm_threw'], ['cut', null]]);
    assert.deepEqual([excluded.map((e) => [e.trace, e.reason]), rows.length], [[['a-0', 'algorithm_threw'], ['a-1', 'algorithm_threw']], 2]);
    assert.equal(scoredBy('grpo').reduction.name, 'token_mean');
  });
}); // prettier-ignore
