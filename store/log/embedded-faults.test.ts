/** What can go wrong around the file of an embedded log: full and read-only disks, a second writer, damaged files, a newer format. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { TestContext } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';
import { startChild } from './contract-process.ts';
import type { Child, ChildOrder } from './contract-process.ts';
import { openEmbeddedLog } from './embedded-log.ts';
import type { EmbeddedLogOptions } from './embedded-log.ts';
import type { EventLog, LogRecord } from './event-log.ts';
import { openDatabase } from './log-database.ts';

let root: string;
/** Whatever a failed test leaves open is closed at the end, or the process would not end. */
const opened: { close(): Promise<void> }[] = [];
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tapedeck-log-faults-'));
});
after(async () => {
  await Promise.all(opened.map(async (one) => one.close()));
  await rm(root, { recursive: true });
});

async function open(options: Partial<EmbeddedLogOptions> = {}): Promise<EventLog> {
  const log = await openEmbeddedLog({
    directory: root,
    topic: 'events',
    partitions: 2,
    mode: 'write',
    maxRecordBytes: 1 << 20,
    compression: 'none',
    clock: systemClock,
    ...options,
  });
  opened.push(log);
  return log;
}

function child(action: ChildOrder['action'], topic: string): Child {
  const fixture = new URL('./embedded-log.fixture.ts', import.meta.url).href;
  const started = startChild({ action, fixture, target: { directory: root }, topic, partitions: 2, maxRecordBytes: 1 << 20 });
  opened.push({ close: () => started.kill() });
  return started;
}

async function refused(work: Promise<unknown>, code: ErrorCode): Promise<void> {
  await assert.rejects(work, (error) => isTapedeckError(error, code) || assert.fail(`expected ${code}, got ${String(error)}`));
}

function records(count: number, bytes: number, from = 0): LogRecord[] {
  return Array.from({ length: count }, (_, i) => ({
    key: Buffer.from(`${from + i}`),
    value: randomBytes(bytes),
  }));
}

/** A small file system of its own, or null (and the test skips) where none may be mounted. */
function mountSmall(t: TestContext, ...options: string[]): string | null {
  const at = mkdtempSync(join(tmpdir(), 'tapedeck-small-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options.join(','), 'tapedeck-test', at], { stdio: 'ignore' });
  } catch {
    rmSync(at, { recursive: true });
    t.skip('a small file system cannot be mounted here');
    return null;
  }
  t.after(() => {
    execFileSync('umount', [at]);
    rmSync(at, { recursive: true });
  });
  return at;
}

test('a full disk is named, nothing acknowledged is lost, and appends go on when there is space', async (t) => {
  const directory = mountSmall(t, 'size=8m');
  if (directory === null) return;
  const ballast = join(directory, 'ballast');
  writeFileSync(ballast, Buffer.alloc(3 << 20));
  const log = await open({ directory });
  const acknowledged: { first: number; records: LogRecord[] }[] = [];
  const append = async (): Promise<void> => {
    const sent = records(3, 100_000);
    acknowledged.push({ ...(await log.append(0, sent)), records: sent });
  };
  await refused(
    (async () => {
      for (;;) await append();
    })(),
    'disk_full',
  );
  assert.ok(acknowledged.length > 3);
  for (let i = 0; i < 3; i++) await refused(append(), 'disk_full');
  const before = acknowledged.length;
  await verify(log, acknowledged);
  rmSync(ballast);
  await Promise.all([append(), append()]);
  assert.equal(acknowledged.length, before + 2);
  await log.close();

  const again = await open({ directory });
  await verify(again, acknowledged);
  await again.close();
});

async function verify(log: EventLog, acknowledged: readonly { first: number; records: readonly LogRecord[] }[]): Promise<void> {
  assert.equal(
    (await log.positions())[0]?.end,
    acknowledged.reduce((sum, append) => sum + append.records.length, 0),
  );
  for (const { first, records: sent } of acknowledged) {
    const chunk = await log.read(0, first, { maxBytes: 1 });
    assert.deepEqual(Buffer.from(chunk.records[0]?.value ?? []), Buffer.from(sent[0]?.value ?? []));
  }
}

test('a place that cannot be written is named', async (t) => {
  const file = join(root, 'a-file');
  writeFileSync(file, '');
  await refused(open({ directory: file }), 'not_writable');
  const readOnly = mountSmall(t, 'size=1m', 'ro');
  if (readOnly === null) return;
  await refused(open({ directory: readOnly }), 'not_writable');
});

test('a second writer is refused while the first one lives, in this process and in another', async () => {
  const log = await open({ topic: 'locked' });
  await refused(open({ topic: 'locked' }), 'log_locked');
  await log.close();

  const writer = child('append', 'locked');
  await writer.lines(1);
  await refused(open({ topic: 'locked' }), 'log_locked');
  await writer.kill();
  await (await open({ topic: 'locked' })).close();
});

test('a reader does not append, and waits for a log that is not there yet by name', async () => {
  await refused(open({ topic: 'not-yet', mode: 'read' }), 'log_unavailable');
  const log = await open({ topic: 'not-yet' });
  const reader = await open({ topic: 'not-yet', mode: 'read' });
  await refused(reader.append(0, records(1, 10)), 'log_locked');
  await reader.close();
  await log.close();
});

test('a reader in another process goes on when the writer comes back, and when the file outgrows its map', async () => {
  let log = await open({ topic: 'growing' });
  const reader = child('follow', 'growing');
  await log.append(0, [{ key: Buffer.from('k'), value: Buffer.from('one') }]);
  assert.deepEqual(await reader.lines(1), ['0 one']);
  await log.close();
  log = await open({ topic: 'growing' });
  for (let i = 0; i < 12; i++) await log.append(1, records(20, 200_000));
  await log.append(0, [{ key: Buffer.from('k'), value: Buffer.from('two') }]);
  assert.deepEqual(await reader.lines(1), ['1 two']);
  await reader.kill();
  await log.close();
});

test('more bytes than may wait for the disk are refused, and accepted later', async () => {
  const log = await open({ topic: 'busy', maxPendingBytes: 100_000 });
  const settled = await Promise.allSettled(Array.from({ length: 5 }, () => log.append(0, records(1, 60_000))));
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const outcome of settled) if (outcome.status === 'rejected') assert.ok(isTapedeckError(outcome.reason, 'overloaded'));
  assert.deepEqual(await log.append(0, records(1, 60_000)), { first: 1 });
  await log.close();
});

test('a file that is no log, one that was cut, and a damaged record are refused by name', async () => {
  await mkdir(join(root, 'garbage'), { recursive: true });
  writeFileSync(join(root, 'garbage', 'data.mdb'), randomBytes(20_000));
  await refused(open({ topic: 'garbage' }), 'log_corrupt');

  const log = await open({ topic: 'damaged' });
  const marker = Buffer.from('a value that can be found in the file');
  await log.append(0, [{ key: Buffer.from('k'), value: marker }, ...records(1, 1000)]);
  for (let i = 0; i < 4; i++) await log.append(1, records(5, 200_000));
  await log.close();
  const file = join(root, 'damaged', 'data.mdb');
  const bytes = readFileSync(file);
  // Pages are copied when they change, so older copies of the record lie about too.
  for (let at = bytes.indexOf(marker); at >= 0; at = bytes.indexOf(marker, at)) bytes[at] = 0;
  writeFileSync(file, bytes);
  const damaged = await open({ topic: 'damaged' });
  await refused(damaged.read(0, 0, { maxBytes: 1000 }), 'log_corrupt');
  await damaged.close();
  truncateSync(file, 1_000_000);
  await refused(open({ topic: 'damaged' }), 'log_corrupt');
});

test('a newer format is refused, and so is a name that is no topic', async () => {
  await mkdir(join(root, 'newer'), { recursive: true });
  const database = openDatabase(join(root, 'newer'), 'write');
  await database.create({ format: 99, topic: 'newer', partitions: 2 });
  await database.close();
  await refused(open({ topic: 'newer' }), 'schema_unknown');
  await assert.rejects(open({ topic: '../elsewhere' }), RangeError);
});

test('a long path to the folder still wakes readers', async () => {
  const directory = join(root, 'a'.repeat(120), 'b'.repeat(60));
  const log = await open({ directory });
  const reader = await open({ directory, mode: 'read' });
  const waiting = reader.read(0, 0, { maxBytes: 1000, waitMs: 20_000 });
  await log.append(0, records(1, 10));
  assert.equal((await waiting).records.length, 1);
  await Promise.all([reader.close(), log.close()]);
});
