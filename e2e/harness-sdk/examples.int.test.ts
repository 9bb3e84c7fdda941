/** The three example environments, run as a newcomer runs them, and docs/harness-sdk.md, which shows what one of them prints. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { audit, caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/harness-sdk.md'), 'utf8');
const folder = temporaryFolder('sdk-examples');
const spool = join(folder.path, 'spool');
let server: TestServer;
before(async () => {
  server = await startServer({ TAPEDECK_DATA: join(folder.path, 'data') });
  await server.ready();
});
after(async () => {
  await server?.kill();
  folder.remove();
});

async function run(file: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', join(ROOT, file), ...args], {
    cwd: folder.path,
  });
  return stdout;
}

/** What the page shows under a command. */
function shown(command: string): string {
  const block = [...page.matchAll(/```console\n([\s\S]*?)```/g)].map(([, text = '']) => text).join('\n');
  const [, ...steps] = block.split(/^\$ /m);
  const step = steps.find((each) => each.startsWith(command));
  assert.ok(step !== undefined, `the page does not show ${command}`);
  return step.slice(step.indexOf('\n') + 1).trimEnd();
}

test('question and answer: the page shows what it prints', async () => {
  const printed = await run('examples/question-and-answer.ts', '--url', server.url, '--spool', spool);
  assert.equal(printed.trimEnd(), shown('node examples/question-and-answer.ts'));
  assert.deepEqual(readdirSync(spool), []);
  await caughtUp(server.url);
  const question = /npx (tapedeck sql "SELECT task_key.*")\n/.exec(page)?.[1] ?? '';
  const table = await run('cli/main.ts', 'sql', /"(.*)"/.exec(question)?.[1] ?? '', '--url', server.url, '--format', 'table');
  assert.equal(table.trimEnd(), shown(`npx ${question}`));
  const [tokens] = await sql<{ total: string; without: string }>(server.url, 'SELECT sum(length(n.logprobs)) AS total, countIf(n.sampled AND empty(n.token_ids)) AS without FROM nodes AS n'); // prettier-ignore
  assert.ok(Number(tokens?.total) > 200);
  assert.equal(Number(tokens?.without), 0);
});

test('a tool loop with a user that a model plays', async () => {
  const printed = await run('examples/tool-loop.ts', '--url', server.url);
  assert.match(printed, /^Oslo and Quito: 1\nPerth: 1\nNuuk and Atlantis: 1\n\d+ events recorded\n$/);
  await caughtUp(server.url);
  const traces = await sql<{ agent: string; n: string; trainable: boolean }>(server.url, "SELECT agent, count() AS n, any(trainable) AS trainable FROM traces WHERE rollout IN (SELECT rollout FROM rollouts WHERE env = 'atlas') GROUP BY agent ORDER BY agent"); // prettier-ignore
  assert.deepEqual(traces.map(({ agent, n, trainable }) => [agent, Number(n), Boolean(trainable)]), [['policy', 3, true], ['user', 3, false]]); // prettier-ignore
  const tools = await sql<{ name: string; n: string }>(
    server.url,
    "SELECT name, count() AS n FROM tools WHERE name = 'latitude_of' GROUP BY name",
  );
  assert.equal(Number(tools[0]?.n), 5);
  // each policy trace is one chain: question, tool call, results, answer
  const [odd] = await sql<{ n: string }>(server.url, "SELECT count() AS n FROM nodes WHERE fork_reason IS NOT NULL AND trace IN (SELECT trace FROM traces WHERE agent = 'policy')"); // prettier-ignore
  assert.equal(Number(odd?.n), 0);
});

test('sub-agents with links', async () => {
  const printed = await run('examples/sub-agent.ts', '--url', server.url);
  assert.match(printed, /^2 helpers: /);
  await caughtUp(server.url);
  const links = await sql<{ type: string; n: string }>(
    server.url,
    "SELECT type, count() AS n FROM links WHERE type LIKE 'subagent%' GROUP BY type ORDER BY type",
  );
  assert.deepEqual(links.map(({ type, n }) => [type, Number(n)]), [['subagent_call', 2], ['subagent_return', 2]]); // prettier-ignore
  const [ends] = await sql<{ n: string }>(
    server.url,
    "SELECT count() AS n FROM links AS l JOIN nodes AS a ON a.trace = l.from_trace AND a.index = l.from_node JOIN nodes AS b ON b.trace = l.to_trace AND b.index = l.to_node WHERE l.type LIKE 'subagent%'",
  );
  assert.equal(Number(ends?.n), 4);
  const [reward] = await sql<{ score: number }>(server.url, "SELECT score FROM rewards WHERE name = 'both found'");
  assert.equal(reward?.score, 1);
  const report = (await audit(server.url)) as unknown as { ok: boolean; problems: unknown[]; mismatches: unknown[] };
  assert.deepEqual([report.ok, report.problems, report.mismatches], [true, [], []]);
});
