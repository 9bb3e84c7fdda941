/**
 * Harness processes are killed at random moments while the server is up, down or restarting, several sharing one spool. Afterwards another process drains the spool, and every
 * node that a harness was told is durable is in the log exactly once and whole. TAPEDECK_KILLS sets the number of rounds (three processes each), TAPEDECK_SEED replays a run.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../base/random.ts';
import { audit, caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { nodeOf, type ChildOptions } from './recording-child.ts';

const ROUNDS = Number(process.env['TAPEDECK_KILLS'] ?? 5);
const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const PORT = 20_000 + (process.pid % 20_000);
const MODES = ['sync', 'persist', 'flush'] as const;

describe(`killed harnesses, seed ${SEED}`, () => {
  const folder = temporaryFolder('sdk-kill');
  const spool = join(folder.path, 'spool');
  const ledgers = join(folder.path, 'ledgers');
  mkdirSync(spool);
  mkdirSync(ledgers);
  const random = seededRandom(SEED);
  let server: TestServer | null = null;
  let children = 0;

  const start = async (): Promise<void> => {
    server = await startServer({ TAPEDECK_DATA: join(folder.path, 'data'), TAPEDECK_PORT: String(PORT), TAPEDECK_BLOCK_WAIT_MS: '50' });
  };
  const spawnChild = (mode: ChildOptions['mode']): { child: ChildProcess; output: () => string } => {
    const n = children++;
    const options: ChildOptions = {
      url: `http://127.0.0.1:${PORT}`,
      spool,
      ledger: join(ledgers, `${n}.txt`),
      seed: SEED * 1000 + n,
      mode,
    };
    const args = ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'recording-child.ts'), JSON.stringify(options)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    return { child, output: () => output };
  };
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  for (let round = 0; round < ROUNDS; round++) {
    const weather = (['up', 'down', 'killed', 'restarted', 'late'] as const)[round % 5] as 'up' | 'down' | 'killed' | 'restarted' | 'late';
    test(`round ${round + 1} of ${ROUNDS}: three processes are killed, the server is ${weather}`, async () => {
      if (server === null && weather !== 'down' && weather !== 'late') await start();
      if (server !== null && (weather === 'down' || weather === 'late')) {
        await server.kill();
        server = null;
      }
      const running = MODES.map((mode) => spawnChild(mode));
      await waitForLedgers(running.length);
      const kills = running.map(async ({ child, output }) => {
        await sleep(random.next() * 600);
        assert.equal(child.exitCode, null, output());
        child.kill('SIGKILL');
        await once(child, 'exit');
      });
      await sleep(random.next() * 200);
      if (weather === 'killed' || weather === 'restarted') await (server as TestServer).kill('tree');
      if (weather === 'killed') server = null;
      if (weather === 'restarted' || weather === 'late') await start();
      await Promise.all(kills);
    });
  }

  /** Until the newest processes have started to record: those that wait for the server alone may have nothing to say yet. */
  async function waitForLedgers(count: number): Promise<void> {
    const isThere = (n: number): boolean => {
      try {
        return readFileSync(join(ledgers, `${n}.txt`)).length > 0 || n % 3 === 2;
      } catch {
        return false;
      }
    };
    for (let i = 0; i < 600; i++) {
      if (Array.from({ length: count }, (_, k) => children - 1 - k).every(isThere)) return;
      await sleep(50);
    }
    throw new Error('a harness did not begin to record');
  }

  test('another process drains the spool; every node that was said to be durable is there once and whole', async () => {
    if (server === null) await start();
    const { url } = server as unknown as TestServer;
    const { child, output } = spawnChild('drain');
    const [code] = (await once(child, 'exit')) as [number];
    assert.equal(code, 0, output());
    assert.deepEqual(readdirSync(spool), [], 'the spool is empty: sessions, alive files and all');
    await caughtUp(url);

    const told = readdirSync(ledgers).flatMap((name) => readFileSync(join(ledgers, name), 'utf8').split('\n').filter(Boolean)); // prettier-ignore
    assert.ok(told.length > 20 * ROUNDS, `only ${told.length} nodes were said to be durable`);
    type Row = { trace: string; index: number; message: string; token_ids: number[]; logprobs: number[] };
    const rows = await sql<Row>(url, 'SELECT trace, index, message, token_ids, logprobs FROM nodes');
    const seen = new Set<string>();
    for (const { trace, index, message, token_ids, logprobs } of rows) {
      const name = `${trace} ${index}`;
      assert.ok(!seen.has(name), `${name} is there twice`);
      seen.add(name);
      const expected = nodeOf(trace, index);
      assert.deepEqual(JSON.parse(message), expected.message);
      assert.deepEqual(token_ids, expected.ids);
      assert.deepEqual(logprobs.map(Math.fround), expected.logprobs);
    }
    assert.deepEqual(told.filter((name) => !seen.has(name)), []); // prettier-ignore

    const [events] = await sql<{ stored: string; different: string; odd: string }>(
      url,
      "SELECT countIf(status = 'stored') AS stored, uniqExactIf(id, status = 'stored') AS different, countIf(status NOT IN ('stored', 'duplicate')) AS odd FROM events",
    );
    assert.equal(events?.stored, events?.different);
    assert.equal(Number(events?.odd), 0);
    // numbers that were never settled are the last ones of a killed producer: below the highest stored number none is missing
    const holes = await sql(
      url,
      'SELECT producer, max(producer_seq) + 1 - uniqExact(producer_seq) AS missing FROM events GROUP BY producer HAVING missing > 0',
    );
    assert.deepEqual(holes, []);
    const report = await audit(url);
    assert.deepEqual(report.problems, []);
    assert.ok(report.ok);
  });
});
