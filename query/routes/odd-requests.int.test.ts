/** Whatever stands in a parameter or in a path, a question has an answer or an error with a name: never one that nobody foresaw. fast-check chooses; it prints its seed. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { RESOURCES } from '../lists/resources.ts';
import { analyticsRoutes } from './analytics.ts';
import { curveRoutes } from './curves.ts';
import { graphRoutes } from './graphs.ts';
import { lineageRoutes } from './lineage.ts';
import { listRoutes } from './lists.ts';
import { searchRoutes } from './search.ts';
import { traceRoutes } from './traces.ts';

type Route = { readonly url: string; readonly params: readonly string[]; readonly required: readonly string[] };

let world: TestWorld;
let app: FastifyInstance;
const routes: Route[] = [];

const IDS = { run: 'run-1', rollout: 'r1', trace: 't1' };
const EVENTS: Draft[] = [
  { type: 'run.started', run: 'run-1', data: { kind: 'eval' } },
  { type: 'rollout.started', run: 'run-1', rollout: 'r1', data: { env: { id: 'e' }, task: { key: 'k' }, work: { type: 'train', step: 1 } } },
  { type: 'trace.started', ...IDS, data: { agent: { name: 'a', model: 'm', trainable: true } } },
  { type: 'node.appended', ...IDS, data: { index: 0, parent: null, role: 'user', sampled: false, message: { role: 'user', content: 'what is it' } } },
  { type: 'node.appended', ...IDS, data: { index: 1, parent: 0, role: 'assistant', sampled: true, message: { role: 'assistant', content: 'so it is' } } },
  { type: 'call.recorded', ...IDS, data: { index: 0, node: 1, model: 'm', cost: 0.5 } },
  { type: 'reward.assigned', ...IDS, data: { scope: 'trace', name: 'exact', score: NaN } },
  { type: 'metric.recorded', ...IDS, data: { scope: 'trace', name: 'answer', value: Infinity } },
  { type: 'trainer.stepped', run: 'run-1', data: { step: 1, metrics: { loss: -Infinity } } },
  { type: 'rollout.ended', run: 'run-1', rollout: 'r1', data: { ok: true } },
]; // prettier-ignore

before(async () => {
  world = await openTestWorld();
  await world.write(EVENTS);
  app = Fastify({ routerOptions: { maxParamLength: 4096 } });
  app.addHook('onRoute', ({ method, url, schema }) => {
    const { properties = {}, required = [] } = (schema?.querystring ?? {}) as { properties?: object; required?: string[] };
    if (method === 'GET') routes.push({ url, params: Object.keys(properties), required });
  });
  for (const plugin of [analyticsRoutes, curveRoutes, graphRoutes, lineageRoutes, listRoutes, searchRoutes, traceRoutes])
    await app.register(plugin, { store: world.store });
  await app.ready();
});
after(async () => {
  await app?.close();
  await world?.close();
});

const ODD = [
  '', ' ', '0', '-1', '1e3', '1.5', '99999999999999999999', '9007199254740993', '18446744073709551615', 'NaN', 'Infinity', '-Infinity', 'null', 'true', '[]', '{}', '{"a":1}', '{"or":[{}]}',
  '{"reward":{"$float":"NaN"}}', '{"__proto__":{"a":1}}', '"', "'", '\\', '`', '%', '\u0000', '\ud83d', '💥', '\u202e', 'a\nb', '../..', 'x'.repeat(3_000), '2026-13-45T00:00:00Z',
  '2026-02-30T00:00:00Z', '0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999Z', '1~1', '~', '1.2.3~4', '1.1.1~', '__proto__', 'constructor', 'toString', 'latest', '{a:UInt8}', "') OR 1=1 --", 'reward.x',
  'reward.', 'metric.x', '-', ',', 'run,run', 'reward,-run', '1,2,3', 'run-1', 'r1', 't1', 'exact', 'answer',
]; // prettier-ignore
const GOOD: Readonly<Record<string, string>> = {
  run: 'run-1',
  base: 'run-1',
  a: 'r1',
  b: 'r1',
  q: 'it',
  of: 'rollouts',
  x: 'step',
  y: 'reward',
  leaf: '1',
};
const IN_PATH: Readonly<Record<string, string>> = { run: 'run-1', rollout: 'r1', trace: 't1', index: '1', step: '1' };

/** Half of a surrogate pair is sent as the bytes that a careless client makes of it. */
function encoded(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : '%ED%A0%BD';
}

async function foreseen(url: string): Promise<void> {
  const ask = async (): Promise<{ status: number; code: string | undefined; body: string }> => {
    const { statusCode: status, body } = await app.inject({ method: 'GET', url });
    return { status, code: status < 400 ? undefined : (JSON.parse(body) as { error?: { code: string } }).error?.code, body };
  };
  let answer = await ask();
  // a busy machine may keep the engine from answering once; a question that ends it does so again
  if (answer.code === 'store_unavailable') answer = await ask();
  assert.ok(answer.status < 500 || answer.code === 'not_ready', `${url}: ${answer.status} ${answer.body.slice(0, 300)}`);
}

function addressOf({ url, required }: Route, more: Readonly<Record<string, string>>, inPath: string | null): string {
  const path = url.replaceAll(/:(\w+)/g, (_, name: string) => encoded(inPath ?? IN_PATH[name] ?? '0'));
  const query = { ...Object.fromEntries(required.map((name) => [name, GOOD[name] ?? '0'])), ...more };
  return `${path}?${Object.entries(query).map(([name, value]) => `${encodeURIComponent(name)}=${encoded(value)}`).join('&')}`; // prettier-ignore
}

test('odd values in parameters and paths', { timeout: 600_000 }, async () => {
  assert.ok(routes.length > 40, String(routes.length));
  const odd = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...ODD) }, fc.string({ unit: 'binary', maxLength: 40 }));
  const asked = fc.constantFrom(...routes).chain((route) =>
    fc.record({
      route: fc.constant(route),
      params: route.params.length === 0 ? fc.constant([]) : fc.array(fc.tuple(fc.constantFrom(...route.params), odd), { minLength: 1, maxLength: 2 }),
      path: fc.option(odd.filter((text) => text !== ''), { freq: 4 }),
    }),
  ); // prettier-ignore
  await fc.assert(
    fc.asyncProperty(asked, async ({ route, params, path }) => {
      await foreseen(addressOf(route, Object.fromEntries(params), path));
    }),
    { numRuns: Number(process.env['TAPEDECK_FUZZ_RUNS'] ?? 250), interruptAfterTimeLimit: 120_000 },
  );
});

test('odd values in filters of every field', { timeout: 600_000 }, async () => {
  const fields = RESOURCES.flatMap(({ name, fields: its }) => [...its.map((field) => field.name), 'reward.x', 'metric.x'].map((field) => [name, field] as const));
  const operator = fc.constantFrom('eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in', 'nin', 'contains', 'icontains', 'starts', 'null', 'nan');
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...fields), operator, fc.constantFrom(...ODD), async ([resource, field], op, value) => {
      await foreseen(`/v1/${resource}?${encodeURIComponent(`${field}[${op}]`)}=${encoded(value)}`);
    }),
    { numRuns: Number(process.env['TAPEDECK_FUZZ_RUNS'] ?? 250), interruptAfterTimeLimit: 120_000 },
  );
}); // prettier-ignore
