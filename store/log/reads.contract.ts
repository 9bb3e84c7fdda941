/** The contract of reads and of waiting. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { systemClock } from '../../base/clock.ts';
import { follow, freezableClock, numbered, plain, readAll, record, refused, withoutOffset } from './contract-support.ts';
import type { Suite } from './contract-support.ts';
import type { LogRecord } from './event-log.ts';

export function reading({ check, open }: Suite): void {
  check('reads begin anywhere, are bounded in bytes, and bring at least one record', async (topic) => {
    const log = await open({ topic });
    const all: LogRecord[] = [];
    for (let i = 0; i < 60; i++) {
      const records = Array.from({ length: 1 + (i % 7) }, (_, j) => record(`${i}`, `${j}`.padEnd(1 + ((i * 37) % 1500), '.')));
      await log.append(0, records);
      all.push(...records);
    }
    const sizeOf = (records: readonly LogRecord[]): number => records.reduce((sum, { key, value }) => sum + key.length + value.length, 0);
    await fc.assert(
      fc.asyncProperty(fc.nat(all.length - 1), fc.nat(9000), async (from, maxBytes) => {
        const { records, next, end } = await log.read(0, from, { maxBytes });
        assert.ok(records.length > 0);
        assert.deepEqual([next, end], [from + records.length, all.length]);
        assert.deepEqual(
          records.map(plain),
          all
            .slice(from, next)
            .map(plain)
            .map((r, i) => ({ ...r, offset: from + i })),
        );
        assert.ok(sizeOf(records.slice(0, -1)) <= maxBytes, 'more than was asked for');
      }),
      { numRuns: 40 },
    );
    const seen = await readAll(log, 0, 0, 4000);
    assert.deepEqual(seen.map(plain).map(withoutOffset), all.map(plain));
  });

  check('a position that the log does not hold is refused by name', async (topic) => {
    const log = await open({ topic });
    await log.append(0, numbered(0, 3));
    await refused(log.read(0, 4, { maxBytes: 1000 }), 'position_out_of_range');
    assert.deepEqual(await log.read(0, 3, { maxBytes: 1000 }), { records: [], next: 3, end: 3 });
  });

  check('a waiting read is woken by the append, not by a timer', async (topic) => {
    const clock = freezableClock();
    const log = await open({ topic, clock });
    clock.freeze();
    const waiting = [log.read(0, 0, { maxBytes: 1000, waitMs: 50_000 }), log.read(0, 0, { maxBytes: 1000, waitMs: 50_000 })];
    const other = log.read(1, 0, { maxBytes: 1000, waitMs: 50_000 });
    await systemClock.sleep(200);
    await log.append(0, numbered(0, 2));
    for (const chunk of await Promise.all(waiting)) assert.deepEqual([chunk.records.length, chunk.next], [2, 2]);
    await log.append(1, numbered(0, 1));
    assert.equal((await other).records.length, 1);
  });

  check('a read that waits in vain ends with an empty chunk', async (topic) => {
    const log = await open({ topic });
    await log.append(0, numbered(0, 1));
    assert.deepEqual(await log.read(0, 1, { maxBytes: 1000, waitMs: 80 }), { records: [], next: 1, end: 1 });
    assert.equal(await log.waitForAppend([1, 0], 80), false);
  });

  check('waitForAppend sees any partition, and at once what is there', async (topic) => {
    const log = await open({ topic });
    const waiting = log.waitForAppend([0, 0], 50_000);
    await log.append(1, numbered(0, 1));
    assert.equal(await waiting, true);
    assert.equal(await log.waitForAppend([0, 0], 0), true);
    assert.equal((await log.read(1, 0, { maxBytes: 1000 })).records.length, 1);
    const next = log.waitForAppend([0, 1], 50_000);
    await log.append(0, numbered(0, 1));
    assert.equal(await next, true);
  });

  check('several readers go at their own pace', async (topic) => {
    const log = await open({ topic });
    const appending = (async () => {
      for (let i = 0; i < 30; i++) await log.append(0, numbered(i * 10, 10));
    })();
    const readers = [1, 700, 100_000].map(async (maxBytes) => follow(log, 300, maxBytes));
    await appending;
    for (const seen of await Promise.all(readers))
      assert.deepEqual(
        seen,
        Array.from({ length: 300 }, (_, i) => `value ${i}`),
      );
  });
}

export function signals({ check, open }: Suite): void {
  check('a call lets go of its signal', async (topic) => {
    const log = await open({ topic });
    const { signal } = new AbortController();
    await log.append(0, numbered(0, 1), signal);
    await log.read(0, 0, { maxBytes: 1000, signal });
    await log.read(0, 1, { maxBytes: 1000, waitMs: 30, signal });
    assert.equal(await log.waitForAppend([1, 0], 30, signal), false);
    assert.equal(await log.waitForAppend([0, 0], 30, signal), true);
    await log.positions(signal);
    await refused(log.read(0, 9, { maxBytes: 1000, signal }), 'position_out_of_range');
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  check('an aborted read or append says so and leaves the log usable', async (topic) => {
    const log = await open({ topic });
    const stop = new AbortController();
    const waiting = log.read(0, 0, { maxBytes: 1000, waitMs: 50_000, signal: stop.signal });
    const waitingForAny = log.waitForAppend([0, 0], 50_000, stop.signal);
    setTimeout(() => stop.abort(), 50);
    await refused(waiting, 'aborted');
    await refused(waitingForAny, 'aborted');
    await refused(log.append(0, numbered(0, 1), stop.signal), 'aborted');
    assert.deepEqual(await log.append(0, numbered(0, 1)), { first: 0 });
  });
}
