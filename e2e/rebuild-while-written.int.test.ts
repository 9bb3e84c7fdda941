/** `rebuild --check` while events go on arriving: the projector comes to rest after a whole block, with its summaries and search, so live and rebuilt answers are of one position. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { LedgerClient } from './ledger-client.ts';
import { caughtUp, provesLedger, rebuiltEqual } from './proof.ts';
import { startServer, temporaryFolder, type TestServer } from './server.ts';
import { Workload } from './workload.ts';

const CHECKS = 3;
const folder = temporaryFolder('rebuild-while-written');
const writing = new AbortController();
let server: TestServer;
before(async () => {
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_BLOCK_WAIT_MS: '10' });
  await server.ready();
});
after(async () => {
  writing.abort();
  await server.kill();
  folder.remove();
});

test('every view is equal, each time, and nothing that came meanwhile is lost', async () => {
  const client = new LedgerClient(() => server.url);
  const write = async (seed: number): Promise<void> => {
    const workload = new Workload(seed);
    while (!writing.signal.aborted) {
      await client.send(workload.rollout(4, 24), writing.signal);
      await sleep(60);
    }
  };
  const writers = [1, 2, 3].map(write);
  for (let n = 0; n < CHECKS; n++) {
    const sent = client.acked.length;
    await rebuiltEqual(server.url);
    assert.ok(client.acked.length > sent, 'events were acknowledged while views were compared');
  }
  writing.abort();
  await Promise.all(writers);
  await caughtUp(server.url);
  await provesLedger(server.url, client.acked, [...client.entries.values()].map((entry) => entry.event)); // prettier-ignore
});
