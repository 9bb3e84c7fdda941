/** However a harness ends, what it recorded is delivered, or on disk for the next, or the loss is said aloud; and nobody delivers for somebody who lives. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';
import { temporaryFolder } from '../server.ts';
import type { ExitOptions } from './exit-child.ts';

const DOWN = 'http://127.0.0.1:9';
const COUNT = 20;
let edge: Edge;
const folder = temporaryFolder('sdk-exit');
let children = 0;
before(async () => {
  edge = await openEdge();
});
after(async () => {
  await edge.close();
  folder.remove();
});

type Child = {
  readonly pid: number;
  kill(signal: NodeJS.Signals): void;
  /** Until its output holds `text`. */
  said(text: string): Promise<void>;
  ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null; readonly output: string; readonly ms: number }>;
};

function start(options: Partial<ExitOptions> & Pick<ExitOptions, 'how'>): Child & { readonly prefix: string } {
  const prefix = options.prefix ?? `exit${children++}-`;
  const given: ExitOptions = { url: edge.url, count: COUNT, ...options, prefix };
  const started = performance.now();
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'exit-child.ts'), JSON.stringify(given)], { stdio: ['ignore', 'pipe', 'pipe'] }); // prettier-ignore
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(child, 'close').then(
    ([code, signal]) => ({ code, signal, output, ms: performance.now() - started }) as Awaited<Child['ended']>,
  );
  const said = async (text: string): Promise<void> => {
    for (let i = 0; !output.includes(text); i++) {
      if (i > 3_000 || child.exitCode !== null) throw new Error(`the harness did not say ${text}:\n${output}`);
      await sleep(10);
    }
  };
  return { pid: child.pid as number, prefix, ended, said, kill: (signal) => void child.kill(signal) };
}

/** How often each metric of a prefix is in the log, as `name -> times`, and under how many ids. */
async function stored(prefix: string): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  for (const { event } of await edge.stored()) {
    const { name } = (event as { data: { name?: string } }).data;
    if (name?.startsWith(prefix) === true) times.set(name, (times.get(name) ?? 0) + 1);
  }
  return times;
}

async function assertOnce(prefix: string, count = COUNT): Promise<void> {
  const times = await stored(prefix);
  assert.equal(times.size, count);
  assert.deepEqual([...times.values()].filter((n) => n !== 1), []); // prettier-ignore
}

/** Another process delivers what `sessions` dead ones left in the spool. */
async function drained(spool: string, sessions = 1): Promise<void> {
  const { code, output } = await start({ how: 'drains', spool, count: sessions }).ended;
  assert.equal(code, 0, output);
  assert.deepEqual(readdirSync(spool), []);
}

let spools = 0;
const newSpool = (): string => join(folder.path, `spool${spools++}`);

test('a program that falls off its end is delivered first, with a spool or without', async () => {
  for (const spool of [newSpool(), undefined]) {
    const child = start({ how: 'falls off the end', ...(spool !== undefined && { spool }) });
    const { code, output } = await child.ended;
    assert.equal(code, 0, output);
    await assertOnce(child.prefix);
  }
});

test('with the server away it ends all the same, in bounded time, and the next process delivers', async () => {
  const spool = newSpool();
  const child = start({ how: 'falls off the end', url: DOWN, spool });
  const { code, output, ms } = await child.ended;
  assert.equal(code, 0, output);
  assert.ok(ms < 20_000);
  assert.equal((await stored(child.prefix)).size, 0);
  await drained(spool);
  await assertOnce(child.prefix);
});

for (const how of ['exits', 'throws'] as const) {
  test(`a program that ${how} has everything on disk`, async () => {
    const spool = newSpool();
    const child = start({ how, url: DOWN, spool });
    const { code, output } = await child.ended;
    assert.equal(code, how === 'exits' ? 3 : 1, output);
    assert.doesNotMatch(output, /neither delivered/);
    await drained(spool);
    await assertOnce(child.prefix);
  });
}

test('without a spool, a loss at exit is said aloud', async () => {
  const { code, output } = await start({ how: 'exits', url: DOWN }).ended;
  assert.equal(code, 3);
  // the metrics and the start of the run
  assert.match(output, /tapedeck: 21 events were neither delivered nor on disk when the process ended/);
});

describe('signals', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} is delivered first and then takes its course`, async () => {
      const child = start({ how: 'waits' });
      await child.said('recorded');
      child.kill(signal);
      assert.equal((await child.ended).signal, signal);
      await assertOnce(child.prefix);
    });
  }

  test('a handler of the program is not swallowed, and ending is its affair', async () => {
    const spool = newSpool();
    const child = start({ how: 'waits with a handler', spool });
    await child.said('recorded');
    child.kill('SIGTERM');
    const { code, output } = await child.ended;
    assert.equal(code, 7, output);
    assert.match(output, /handled/);
    // it did not wait for the delivery; what was not delivered is on disk, what the handler recorded too
    if (readdirSync(spool).length > 0) await drained(spool);
    await assertOnce(child.prefix, COUNT + 1);
  });

  test('a second signal does not wait for a server that hangs', async () => {
    const hanging = createServer(() => {});
    hanging.listen(0, '127.0.0.1');
    await once(hanging, 'listening');
    const spool = newSpool();
    const child = start({ how: 'waits', url: `http://127.0.0.1:${(hanging.address() as AddressInfo).port}`, spool });
    await child.said('recorded');
    child.kill('SIGTERM');
    await sleep(200);
    child.kill('SIGTERM');
    assert.equal((await child.ended).signal, 'SIGTERM');
    hanging.closeAllConnections();
    hanging.close();
    await drained(spool);
    await assertOnce(child.prefix);
  });
});

describe('several at one spool', () => {
  test('forked workers and threads record for themselves only', async () => {
    for (const [how, count] of [
      ['forks', 3],
      ['starts threads', 2],
    ] as const) {
      // prettier-ignore
      const spool = newSpool();
      const child = start({ how, spool });
      const { code, output } = await child.ended;
      assert.equal(code, 0, output);
      await assertOnce(child.prefix, COUNT * count);
      assert.deepEqual(readdirSync(spool), []);
    }
  });

  test('what belongs to a living process, even a stopped one, is left alone', async () => {
    const spool = newSpool();
    const living = start({ how: 'waits', url: DOWN, spool });
    await living.said('recorded');
    const sessions = (): string[] => readdirSync(spool).filter((name) => !name.includes('.'));
    for (let i = 0; i < 500 && sessions().length === 0; i++) await sleep(10);
    const before = sessions();
    assert.equal(before.length, 1);
    living.kill('SIGSTOP');
    const dead = start({ how: 'exits', url: DOWN, spool });
    await dead.ended;
    const { code, output } = await start({ how: 'drains', spool, count: 1 }).ended;
    assert.equal(code, 0, output);
    await assertOnce(dead.prefix);
    assert.deepEqual(sessions(), before);
    assert.equal((await stored(living.prefix)).size, 0);
    living.kill('SIGKILL');
    await living.ended;
    await drained(spool);
    await assertOnce(living.prefix);
  });

  test('many drain at once: each session is delivered by one of them', async () => {
    const spool = newSpool();
    const dead = await Promise.all(Array.from({ length: 4 }, async () => {
      const child = start({ how: 'exits', url: DOWN, spool });
      await child.ended;
      return child.prefix;
    })); // prettier-ignore
    const takers = Array.from({ length: 3 }, () => start({ how: 'falls off the end', spool }));
    await Promise.all(takers.map(({ ended }) => ended));
    if (readdirSync(spool).length > 0) {
      const left = readdirSync(spool).filter((name) => !name.includes('.')).length;
      await drained(spool, left);
    }
    for (const prefix of [...dead, ...takers.map((taker) => taker.prefix)]) await assertOnce(prefix);
  });
});
