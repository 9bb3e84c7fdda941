/** The contract of appends. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { MAX_RECORD_BYTES, numbered, plain, readAll, record, refused, withoutOffset } from './contract-support.ts';
import type { Suite } from './contract-support.ts';
import type { LogRecord } from './event-log.ts';

export function appending({ check, open }: Suite): void {
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

  check(
    'who listens, where the log can be listened to, is shown each append at its place before it resolves, and no more once that ended',
    async (topic) => {
      const log = await open({ topic });
      if (log.onAppend === undefined) return;
      const shown: { partition: number; first: number; values: string[] }[] = [];
      const end = log.onAppend((partition, first, records) => {
        shown.push({ partition, first, values: records.map(({ value }) => Buffer.from(value).toString()) });
      });
      const calls = Array.from({ length: 20 }, (_, call) => numbered(call * 10, 1 + (call % 3)));
      const appended = await Promise.all(
        calls.map(async (records, call) => {
          const { first } = await log.append(call % 2, records);
          assert.ok(shown.some((each) => each.partition === call % 2 && each.first === first));
          return { partition: call % 2, first, values: records.map(({ value }) => Buffer.from(value).toString()) };
        }),
      );
      await log.append(0, []);
      await assert.rejects(log.append(0, [record('k', 'x'.repeat(MAX_RECORD_BYTES + 1))]));
      const ordered = (list: typeof shown): typeof shown => list.toSorted((a, b) => a.partition - b.partition || a.first - b.first);
      assert.deepEqual(ordered(shown), ordered(appended));
      end();
      await log.append(0, numbered(0, 1));
      assert.equal(shown.length, calls.length);
      const reader = await open({ topic, mode: 'read' });
      assert.equal(reader.onAppend, undefined, 'a reader does not see what another process appends');
    },
  );

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
