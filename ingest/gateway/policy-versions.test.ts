/** The log shows what is appended: only what may hold a policy is read back. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ByteWriter } from '../../base/byte-writer.ts';
import { systemClock } from '../../base/clock.ts';
import { temporaryFolder } from '../../e2e/server.ts';
import { encodeCbor } from '../../events/codec/cbor-encode.ts';
import { openEmbeddedLog } from '../../store/log/embedded-log.ts';
import type { EventLog, LogRecord } from '../../store/log/event-log.ts';
import { createPolicyVersions } from './policy-versions.ts';

const folder = temporaryFolder('policy-versions');
const log = await openEmbeddedLog({ directory: folder.path, topic: 'events', partitions: 2, mode: 'write', maxRecordBytes: 10_000, compression: 'none', clock: systemClock }); // prettier-ignore
after(async () => {
  await log.close();
  folder.remove();
});

/** Whether the log shows its appends, or they must be read. */
for (const shows of [true, false]) {
  test(`every policy is found among other records, ${shows ? 'and a partition without any is not read' : 'all of them read'}`, async () => {
    const reads: { readonly partition: number; readonly from: number; readonly next: number }[] = [];
    const counted: EventLog = {
      ...log,
      read: async (partition, from, options) => {
        const chunk = await log.read(partition, from, options);
        reads.push({ partition, from, next: chunk.next });
        return chunk;
      },
    };
    if (!shows) delete (counted as { onAppend?: unknown }).onAppend;
    const before = await log.positions();
    const policies = createPolicyVersions({ log: counted, fetchBlob: async () => new Uint8Array(), clock: systemClock, from: before.map(({ end }) => end) }); // prettier-ignore
    try {
      const run = `run-${shows}`;
      for (let version = 1; version <= 5; version++) {
        const quiet = (): Promise<unknown>[] => Array.from({ length: 20 }, (_, i) => log.append(i % 2, [plain(i), plain(i)]));
        await Promise.all([...quiet(), log.append(1, [plain(0), published(run, version)]), ...quiet()]);
        await policies.caughtUp();
        assert.equal(policies.at('default', run), version);
      }
      const { end } = (await log.positions())[0] as { end: number };
      const appended = end - (before[0]?.end ?? 0);
      const read = reads.filter(({ partition }) => partition === 0).reduce((sum, { from, next }) => sum + next - from, 0);
      // now and then it looks between the end of an append and its being shown
      if (shows) assert.ok(read < appended / 2, `${read} of ${appended} records of the partition without policies were read`);
      else assert.ok(read >= appended);
    } finally {
      await policies.close();
    }
  });
}

function plain(i: number): LogRecord {
  return { key: new Uint8Array(), value: Buffer.alloc(100, i) };
}

function published(run: string, version: number): LogRecord {
  const out = new ByteWriter(256);
  encodeCbor({ v: 1, id: crypto.randomUUID(), type: 'policy.published', time: Date.now() * 1000, run, data: { version } }, out);
  return { key: new Uint8Array(), value: Uint8Array.from(out.view()) };
}
