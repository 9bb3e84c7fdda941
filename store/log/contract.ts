/**
 * What every driver of the log promises, as tests. A driver's test file names a fixture module that opens logs of that driver and runs this suite over it;
 * the module is named, not imported, because some tests open the log in another process (contract-child.ts).
 */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../base/clock.ts';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';
import { startChild } from './contract-process.ts';
import type { Child, ChildOrder } from './contract-process.ts';
import type { EventLog, LogRecord, StoredRecord } from './event-log.ts';

export type OpenOptions = {
  readonly topic: string;
  readonly partitions: number;
  readonly maxRecordBytes: number;
  readonly mode: 'write' | 'read';
  readonly clock: Clock;
};
/** What a fixture module exports as `openLog`; `target` says where (a folder, brokers) and must survive JSON. */
export type OpenLog<Target> = (target: Target, options: OpenOptions) => Promise<EventLog>;

export type Driver<Target> = {
  readonly fixture: URL;
  /** Where the logs of this run lie. A string is the reason to skip the whole suite. */
  readonly start: () => Promise<{ target: Target; stop: () => Promise<void> } | string>;
  /** Shorter where every append costs a trip to a broker. */
  readonly records?: number;
};

const MAX_RECORD_BYTES = 256 * 1024;

/** Once frozen, no timer ever fires: whoever is woken under this clock was woken by an append. */
function freezableClock(): Clock & { freeze(): void } {
  let frozen = false;
  return {
    ...systemClock,
    freeze: () => void (frozen = true),
    sleep: (ms, signal) =>
      frozen
        ? new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))
        : systemClock.sleep(ms, signal),
  };
}

export function logContract<Target>(name: string, driver: Driver<Target>): void {
  describe(`log contract: ${name}`, { concurrency: false }, () => {
    let started: { target: Target; stop: () => Promise<void> };
    let openLog: OpenLog<Target>;
    let skip: string | null = null;
    let topics = 0;
    const run = `contract-${randomUUID()}`;
    const opened: EventLog[] = [];

    before(async () => {
      const answer = await driver.start();
      if (typeof answer === 'string') skip = answer;
      else started = answer;
      ({ openLog } = (await import(driver.fixture.href)) as { openLog: OpenLog<Target> });
    });
    after(async () => {
      await Promise.all(opened.map(async (log) => log.close()));
      if (skip === null) await started.stop();
    });

    const open = async (options: Partial<OpenOptions> & { topic: string }): Promise<EventLog> => {
      const log = await openLog(started.target, { ...defaults, ...options });
      opened.push(log);
      return log;
    };
    const check = (title: string, body: (topic: string) => Promise<void>): void => {
      test(title, { timeout: 60_000 }, async (context) => {
        if (skip === null) await body(`${run}-${topics++}`);
        else context.skip(skip);
      });
    };
    const child = (order: Pick<ChildOrder, 'action' | 'topic'>): Child =>
      startChild({ fixture: driver.fixture.href, target: started.target, partitions: 2, maxRecordBytes: MAX_RECORD_BYTES, ...order });

    appending({ check, open });
    reading({ check, open });
    living({ check, open, records: driver.records ?? 100_000 });
    otherProcesses({ check, open, child });
  });
}

const defaults: Omit<OpenOptions, 'topic'> = { partitions: 2, maxRecordBytes: MAX_RECORD_BYTES, mode: 'write', clock: systemClock };

type Suite = {
  readonly check: (title: string, body: (topic: string) => Promise<void>) => void;
  readonly open: (options: Partial<OpenOptions> & { topic: string }) => Promise<EventLog>;
};

function appending({ check, open }: Suite): void {
  check('a new log is empty, and an empty append changes nothing', async (topic) => {
    const log = await open({ topic });
    assert.equal(log.partitions, 2);
    assert.deepEqual(await log.append(1, []), { first: 0 });
    assert.deepEqual(await log.positions(), [
      { first: 0, end: 0 },
      { first: 0, end: 0 },
    ]);
    assert.deepEqual(await log.read(0, 0, { maxBytes: 1000 }), { records: [], next: 0, end: 0 });
  });

  check('appends get consecutive offsets per partition and read back in order', async (topic) => {
    const log = await open({ topic });
    assert.deepEqual(await log.append(0, numbered(0, 3)), { first: 0 });
    assert.deepEqual(await log.append(1, numbered(100, 1)), { first: 0 });
    assert.deepEqual(await log.append(0, numbered(3, 2)), { first: 3 });
    const chunk = await log.read(0, 0, { maxBytes: 1e6 });
    assert.deepEqual(
      chunk.records.map(plain),
      numbered(0, 5)
        .map(plain)
        .map((record, offset) => ({ ...record, offset })),
    );
    assert.deepEqual([chunk.next, chunk.end], [5, 5]);
    assert.deepEqual(await log.positions(), [
      { first: 0, end: 5 },
      { first: 0, end: 1 },
    ]);
  });

  check('concurrent appends keep the order of the calls and are not interleaved', async (topic) => {
    const log = await open({ topic });
    const calls = Array.from({ length: 60 }, (_, call) =>
      Array.from({ length: 1 + (call % 5) }, (_value, i) => record(`call ${call}`, `${i}`)),
    );
    const firsts = await Promise.all(calls.map(async (records, call) => (await log.append(call % 2, records)).first));
    for (const partition of [0, 1]) {
      const read = await readAll(log, partition, 0);
      const expected = calls.flatMap((records, call) => (call % 2 === partition ? records : []));
      assert.deepEqual(read.map(plain).map(withoutOffset), expected.map(plain));
      for (const [call, records] of calls.entries()) {
        if (call % 2 !== partition) continue;
        assert.deepEqual(
          read
            .slice(firsts[call], (firsts[call] as number) + records.length)
            .map(plain)
            .map(withoutOffset),
          records.map(plain),
        );
      }
    }
  });

  check('keys and values are bytes: empty, NUL, any', async (topic) => {
    const log = await open({ topic });
    const records: LogRecord[] = [
      { key: Buffer.alloc(0), value: Buffer.alloc(0) },
      { key: Buffer.from([0]), value: Buffer.alloc(5) },
      { key: Buffer.from([0xff, 0xfe, 0]), value: Buffer.from([0xc3, 0x28, 0xed, 0xa0, 0x80]) },
      { key: new Uint8Array(new ArrayBuffer(16), 3, 7).fill(9), value: randomBytes(200_000) },
      { key: Buffer.from('k'), value: Buffer.alloc(0) },
    ];
    await log.append(0, records);
    const read = await readAll(log, 0, 0);
    assert.deepEqual(read.map(plain).map(withoutOffset), records.map(plain));
  });

  check('the bytes may be used again once the append has resolved', async (topic) => {
    const log = await open({ topic });
    const pooled = Buffer.from('the first value');
    await log.append(0, [{ key: pooled.subarray(0, 3), value: pooled }]);
    pooled.fill(0x2a);
    const { records } = await log.read(0, 0, { maxBytes: 1000 });
    assert.equal(Buffer.from(records[0]?.value ?? []).toString(), 'the first value');
  });

  check('a record over the limit is refused by name and nothing of its append is kept', async (topic) => {
    const log = await open({ topic });
    const limit = Buffer.alloc(MAX_RECORD_BYTES - 1, 1);
    const over = Buffer.alloc(MAX_RECORD_BYTES, 1);
    await refused(log.append(0, [record('k', 'small'), { key: Buffer.from('k'), value: over }]), 'record_too_large');
    assert.deepEqual(await log.append(0, [{ key: Buffer.from('k'), value: limit }]), { first: 0 });
    assert.equal((await log.positions())[0]?.end, 1);
  });

  check('an append of several megabytes stays together', async (topic) => {
    const log = await open({ topic });
    const large = Array.from({ length: 40 }, (_, i) => ({ key: Buffer.from(`${i}`), value: randomBytes(100_000) }));
    const [first, second] = await Promise.all([log.append(0, large), log.append(0, numbered(0, 1))]);
    assert.deepEqual([first.first, second.first], [0, 40]);
    assert.deepEqual((await readAll(log, 0, 0)).slice(0, 40).map(plain).map(withoutOffset), large.map(plain));
  });
}

function reading({ check, open }: Suite): void {
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

function living({ check, open, records: total }: Suite & { records: number }): void {
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

function otherProcesses({ check, open, child }: Suite & { child: (order: Pick<ChildOrder, 'action' | 'topic'>) => Child }): void {
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

function record(key: string, value: string): LogRecord {
  return { key: Buffer.from(key), value: Buffer.from(value) };
}

function numbered(from: number, count: number): LogRecord[] {
  return Array.from({ length: count }, (_, i) => record(`key ${from + i}`, `value ${from + i}`));
}

type Plain = { offset?: number; key: string; value: string };

function plain(stored: LogRecord & { offset?: number }): Plain {
  const text = { key: Buffer.from(stored.key).toString('base64'), value: Buffer.from(stored.value).toString('base64') };
  return stored.offset === undefined ? text : { offset: stored.offset, ...text };
}

function withoutOffset({ key, value }: Plain): Plain {
  return { key, value };
}

async function readAll(log: EventLog, partition: number, from: number, maxBytes = 1 << 20): Promise<StoredRecord[]> {
  const { end } = (await log.positions())[partition] as { end: number };
  const found: StoredRecord[] = [];
  for (let at = from; at < end;) {
    const chunk = await log.read(partition, at, { maxBytes });
    assert.ok(chunk.next > at, 'a read must get on');
    found.push(...chunk.records);
    at = chunk.next;
  }
  return found;
}

/** Reads `count` values as they come. */
async function follow(log: EventLog, count: number, maxBytes: number): Promise<string[]> {
  const seen: string[] = [];
  for (let at = 0; seen.length < count;) {
    const chunk = await log.read(0, at, { maxBytes, waitMs: 20_000 });
    seen.push(...chunk.records.map(({ value }) => Buffer.from(value).toString()));
    at = chunk.next;
  }
  return seen;
}

async function refused(work: Promise<unknown>, code: ErrorCode): Promise<void> {
  await assert.rejects(work, (error) => isTapedeckError(error, code) || assert.fail(`expected ${code}, got ${String(error)}`));
}
