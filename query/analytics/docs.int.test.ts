/** docs/analytics.md: its examples are what the routes answer on the sample, and it names every route. `--write` at the end of the command renews the page. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import { startTestEngine } from '../engine-for-tests.ts';
import type { TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { analyticsRoutes } from '../routes/analytics.ts';
import { filledPage } from './docs-text.ts';
import { testLog } from './log-for-tests.ts';
import { writeSample } from './sample-for-docs.ts';

const PAGE = new URL('../../docs/analytics.md', import.meta.url);
let engine: TestEngine;
let app: FastifyInstance;
const paths: string[] = [];

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default']);
  await writeSample(testLog(engine.store));
  app = Fastify();
  app.addHook('onRoute', ({ method, path }) => {
    if (method === 'GET') paths.push(path);
  });
  await app.register(analyticsRoutes, { store: engine.store });
});
after(async () => {
  await app?.close();
  await engine?.close();
});

test('every example is what its request answers', async () => {
  const page = readFileSync(PAGE, 'utf8');
  const fresh = await filledPage(page, async (request) => {
    const response = await app.inject({ url: request });
    assert.equal(response.statusCode, 200, `${request}: ${response.body}`);
    return response.json<unknown>();
  });
  if (process.argv.includes('--write')) writeFileSync(PAGE, fresh);
  else assert.equal(page, fresh, 'run: node query/analytics/docs.int.test.ts --write');
});

test('every route is in the page', () => {
  const page = readFileSync(PAGE, 'utf8');
  assert.ok(paths.length >= 8);
  for (const path of paths) assert.ok(page.includes(`\`${path}\``), path);
});
