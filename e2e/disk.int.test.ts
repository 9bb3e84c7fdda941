/** A full disk and an unwritable folder: errors by name, nothing acknowledged is lost, and it recovers when there is room again. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cborBody, LedgerClient } from './ledger-client.ts';
import { audit, caughtUp } from './proof.ts';
import { startServer, temporaryFolder, type TestServer } from './server.ts';
import { Workload } from './workload.ts';

const folder = temporaryFolder('disk');

function mountSmall(): string | false {
  mkdirSync(join(folder.path, 'small'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=192m', 'tmpfs', join(folder.path, 'small')], { stdio: 'pipe' });
    return false;
  } catch {
    return 'a small file system cannot be mounted here (needs root)';
  }
}

const skip = mountSmall();

describe('a full disk', { skip }, () => {
  const data = join(folder.path, 'small');
  const ballast = join(data, 'ballast');
  const workload = new Workload(3);
  let server: TestServer;
  let client: LedgerClient;

  before(async () => {
    server = await startServer({ TAPEDECK_DATA: data });
    await server.ready();
    client = new LedgerClient(() => server.url);
    for (let i = 0; i < 5; i++) await client.send(workload.rollout(), AbortSignal.timeout(10_000));
  });
  after(async () => {
    await server.kill();
    execFileSync('umount', ['-l', data]);
    folder.remove();
  });

  test('is an error by name, and nothing of the request is stored', async () => {
    const { bavail, bsize } = statfsSync(data);
    writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - 64 * 1024)));
    let answer: Response | undefined;
    for (let i = 0; i < 50; i++) {
      answer = await fetch(`${server.url}/v1/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/cbor' },
        body: new Uint8Array(cborBody(workload.rollout(6, 4000))),
      });
      if (answer.status >= 500) break;
    }
    assert.equal(answer?.status, 503);
    assert.match(await (answer as Response).text(), /disk_full/);
  });

  test('recovers when there is room again, with everything that was acknowledged', async () => {
    rmSync(ballast);
    for (let i = 0; i < 100; i++) {
      if (await client.send(workload.rollout(), AbortSignal.timeout(2_000))) break;
      await sleep(100);
    }
    await caughtUp(server.url, 120_000);
    const ids = new Set(client.acked.map((e) => e.id));
    assert.ok(ids.size > 0);
    assert.deepEqual((await audit(server.url)).problems, []);
  });
});

describe('an unwritable data folder', () => {
  test('is refused at start by name', { skip: process.getuid?.() === 0 ? 'root may write anywhere' : false }, async () => {
    const data = join(folder.path, 'locked');
    mkdirSync(data);
    chmodSync(data, 0o500);
    await assert.rejects(startServer({ TAPEDECK_DATA: data }), /not_writable/);
  });

  test('a file in its place is refused at start by name', async () => {
    const data = join(folder.path, 'a-file');
    mkdirSync(folder.path, { recursive: true });
    writeFileSync(data, '');
    await assert.rejects(startServer({ TAPEDECK_DATA: data }), /not_writable/);
  });
});
