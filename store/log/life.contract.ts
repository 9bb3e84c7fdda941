/** The contract of a log over time: many records, closing, opening again, other processes, SIGKILL. */
import assert from 'node:assert/strict';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import { numbered, readAll, refused } from './contract-support.ts';
import type { Suite } from './contract-support.ts';

export function living({ check, open, records: total }: Suite): void {
  check(`${total} records`, async (topic) => {
    const log = await open({ topic });
    const perCall = 500;
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      for (let call = lane; call < total / perCall; call += 8) await log.append(0, numbered(call * perCall, perCall));
    });
    await Promise.all(lanes);
    const seen = new Set<string>();
    let expected = 0;
    for (let from = 0; from < total;) {
      const { records, next } = await log.read(0, from, { maxBytes: 1 << 20 });
      for (const { offset, value } of records) {
        assert.equal(offset, expected++);
        seen.add(Buffer.from(value).toString());
      }
      from = next;
    }
    assert.equal(seen.size, total);
  });

  check('the log is there again after it was closed; another number of partitions is refused', async (topic) => {
    const log = await open({ topic });
    await log.append(1, numbered(0, 5));
    await log.close();
    const again = await open({ topic });
    assert.deepEqual(await again.append(1, numbered(5, 1)), { first: 5 });
    assert.equal((await readAll(again, 1, 0)).length, 6);
    await again.close();
    await refused(open({ topic, partitions: 3 }), 'partition_count_changed');
  });

  check('closing ends waiting reads with an empty chunk and refuses what comes later', async (topic) => {
    const log = await open({ topic });
    await log.append(0, numbered(0, 1));
    const waiting = log.read(0, 1, { maxBytes: 1000, waitMs: 50_000 });
    const waitingForAny = log.waitForAppend([1, 0], 50_000);
    await systemClock.sleep(50);
    await Promise.all([log.close(), log.close()]);
    assert.deepEqual((await waiting).records, []);
    assert.equal(await waitingForAny, false);
    await refused(log.read(0, 0, { maxBytes: 1000 }), 'closed');
    await refused(log.append(0, numbered(0, 1)), 'closed');
    await refused(log.positions(), 'closed');
  });

  check('closing while appending settles every append, truthfully', async (topic) => {
    const log = await open({ topic });
    const appends = Array.from({ length: 50 }, async (_, i) => log.append(0, numbered(i, 1)));
    const closing = log.close();
    const settled = await Promise.allSettled(appends);
    await closing;
    const again = await open({ topic });
    const kept = (await readAll(again, 0, 0)).map(({ value }) => Buffer.from(value).toString());
    for (const [i, outcome] of settled.entries()) {
      if (outcome.status === 'fulfilled') assert.equal(kept[outcome.value.first], `value ${i}`);
      else assert.ok(isTapedeckError(outcome.reason, 'closed'), String(outcome.reason));
    }
  });
}

export function otherProcesses({ check, open, child }: Suite): void {
  check('SIGKILL loses nothing that was acknowledged, and leaves no gap', async (topic) => {
    for (let round = 0; round < 3; round++) {
      const writer = child({ action: 'append', topic });
      const acknowledged = await writer.lines(20 + round * 17);
      await writer.kill();
      const log = await open({ topic });
      const kept = await readAll(log, 0, 0);
      for (const line of [...acknowledged, ...writer.seen]) {
        const [offset, value] = line.split(' ') as [string, string];
        assert.equal(Buffer.from(kept[Number(offset)]?.value ?? []).toString(), value);
      }
      assert.deepEqual(
        kept.map(({ offset }) => offset),
        kept.map((_, i) => i),
      );
      await log.close();
    }
  });

  check('a reader in another process is woken by the append', async (topic) => {
    const log = await open({ topic });
    await log.append(0, numbered(0, 1));
    const reader = child({ action: 'follow', topic });
    try {
      assert.deepEqual(await reader.lines(1), ['0 value 0']);
      for (let i = 1; i < 4; i++) {
        await systemClock.sleep(100);
        await log.append(0, numbered(i, 1));
        assert.deepEqual(await reader.lines(1), [`${i} value ${i}`]);
      }
    } finally {
      await reader.kill();
    }
  });
}
