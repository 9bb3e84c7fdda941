import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { isTapedeckError } from '../../../base/errors.ts';
import { nativeBlock } from './conformance/access.contract.ts';
import { connectTo, startTestEngine } from './engine-for-tests.ts';

async function until(what: string, check: () => Promise<boolean> | boolean): Promise<void> {
  for (let i = 0; i < 400; i++, await delay(50)) if (await check()) return;
  assert.fail(`${what} did not come true`);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('an engine that dies', () => {
  test('is started again at the same address; no acknowledged insert is lost; callers may repeat', async (t) => {
    const engine = await startTestEngine();
    t.after(() => engine.close());
    const { url } = engine;
    const store = connectTo(engine);
    await store.command('CREATE TABLE kept (a UInt32) ENGINE = MergeTree ORDER BY a');
    const acknowledged: number[] = [];
    const failures: unknown[] = [];
    let isOver = false;
    const insert = async (from: number, step: number): Promise<void> => {
      for (let a = from; !isOver; a += step) {
        await store.insertNative('kept', ['a'], nativeBlock([a])).then(
          () => acknowledged.push(a),
          async (error: unknown) => {
            failures.push(error);
            await delay(20);
          },
        );
      }
    };
    const ask = async (): Promise<void> => {
      while (!isOver) {
        await store.rows('SELECT count() FROM kept WHERE sleepEachRow(0.001) = 0').catch(async (error: unknown) => {
          failures.push(error);
          await delay(20);
        });
      }
    };
    const work = [insert(0, 2), insert(1, 2), ask(), ask()];
    const pids = new Set<number>();
    for (let kill = 0; kill < 4; kill++) {
      const before = acknowledged.length;
      await until('inserts are acknowledged again', () => acknowledged.length >= before + 6);
      const pid = engine.pid() as number;
      pids.add(pid);
      process.kill(pid, 'SIGKILL');
      await until('its death is seen', () => engine.pid() !== pid);
    }
    await until('the engine is up again', () => engine.state() === 'up');
    isOver = true;
    await Promise.all(work);
    assert.equal(pids.size, 4);
    assert.equal(engine.url, url);
    assert.ok(failures.length > 0 && acknowledged.length >= 24, `${failures.length} failures, ${acknowledged.length} inserts`);
    for (const error of failures) assert.ok(isTapedeckError(error) && error.retriable, String(error));
    const rows = await store.rows<{ a: number }>('SELECT DISTINCT a FROM kept');
    const stored = new Set(rows.map((row) => row.a));
    assert.deepEqual(
      acknowledged.filter((a) => !stored.has(a)),
      [],
    );
    // What was left behind by the bodies of the killed processes is gone.
    assert.deepEqual(
      (await readdir(join(engine.directory, 'spool'))).filter((name) => !name.startsWith('result-')),
      [],
    );
    await store.close();
  });
});

describe('one process per directory', () => {
  test('a second one is refused by name, the first goes on', async (t) => {
    const first = await startTestEngine();
    t.after(() => first.close());
    await assert.rejects(startTestEngine({ dataDir: first.directory }), (error) => isTapedeckError(error, 'store_locked'));
    const store = connectTo(first);
    assert.deepEqual(await store.rows('SELECT 1 AS x'), [{ x: 1 }]);
    await store.close();
  });

  test('a directory that cannot be made is an error at once', async () => {
    await assert.rejects(startTestEngine({ dataDir: '/dev/null/store' }), (error) => isTapedeckError(error, 'store_unavailable'));
  });
});

describe('the end', () => {
  test('the engine ends when its parent is killed, and the directory is free', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tapedeck-parent-'));
    const parent = spawn(process.execPath, [join(import.meta.dirname, 'parent-for-tests.ts'), directory], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    assert.ok(isAlive(pid));
    parent.kill('SIGKILL');
    await until('the engine ends', () => !isAlive(pid));
    const next = await startTestEngine({ dataDir: directory });
    await next.close();
    await rm(directory, { recursive: true, force: true });
  });

  test('close ends the process and what runs in it, once', async () => {
    const engine = await startTestEngine();
    const store = connectTo(engine);
    const pid = engine.pid() as number;
    const slow = store.rows('SELECT sleepEachRow(0.1) FROM numbers(1000) SETTINGS max_block_size = 1').catch((error: unknown) => error);
    await delay(200);
    await Promise.all([engine.close(), engine.close()]);
    assert.equal(isAlive(pid), false);
    assert.equal(engine.state(), 'down');
    assert.ok(isTapedeckError(await slow));
    await assert.rejects(store.ping(), (error) => isTapedeckError(error, 'store_unavailable'));
    await store.close();
  });
});

test('every thread of the engine has the low priority', { skip: process.platform !== 'linux' && 'needs /proc' }, async (t) => {
  const engine = await startTestEngine({ nice: 7 });
  t.after(() => engine.close());
  const store = connectTo(engine);
  await store.rows('SELECT sum(number) FROM numbers_mt(10000000)');
  const threads = await readdir(`/proc/${engine.pid()}/task`);
  const niceness = await Promise.all(
    threads.map(async (thread) => {
      const stat = await readFile(`/proc/${engine.pid()}/task/${thread}/stat`, 'utf8').catch(() => null);
      // One watchdog of the engine raises itself, where it may; it only reads counters.
      return stat === null || stat.includes('(MemoryWorker)') ? 7 : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
    }),
  );
  assert.deepEqual([...new Set(niceness)], [7]);
  assert.ok(threads.length > 10);
  await store.close();
});
