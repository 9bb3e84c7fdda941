import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readSegment } from './segment-codec.ts';
import { segmentReader } from './segment-files.ts';
import { sessionWriter, type SessionWriter, type WriterOptions } from './session-writer.ts';

const root = mkdtempSync(join(tmpdir(), 'tapedeck-writer-'));
after(() => rmSync(root, { recursive: true, force: true }));
let count = 0;

function writerWith(options: Partial<WriterOptions> = {}): { writer: SessionWriter; folder: string } {
  const folder = join(root, String(count++));
  return {
    folder,
    writer: sessionWriter({ folder, owner: { producer: 'p' }, maxBytes: 1 << 20, segmentBytes: 1000, fsync: false, ...options }),
  };
}

const event = (n: number, bytes = 100): Uint8Array => Buffer.alloc(bytes, `${n} `);
const LIMITS = { bytes: 1 << 20, events: 1000 };

async function readAll(writer: SessionWriter, from: number): Promise<string[]> {
  const reader = segmentReader();
  const found: string[] = [];
  for (;;) {
    const { events, lost } = await reader.read(writer.filesFrom(from), from, LIMITS);
    if (lost > 0) found.push(...Array.from({ length: lost }, () => 'lost'));
    if (lost === 0 && events.length === 0) return found;
    found.push(...events.map((each) => Buffer.from(each).toString().split(' ')[0] as string));
    from += events.length + lost;
  }
}

const numbers = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, i) => String(from + i));

test('nothing is made before the first event; then the owner stands beside the segments', async () => {
  const { writer, folder } = writerWith();
  assert.equal(existsSync(folder), false);
  assert.equal(writer.used, false);
  await writer.append(0, [event(0)], 0);
  assert.deepEqual(readdirSync(folder), ['00000001.seg', 'owner.json']);
  assert.deepEqual(JSON.parse(readFileSync(join(folder, 'owner.json'), 'utf8')), { producer: 'p' });
  writer.close();
});

test('segments are filled one after another, read in order, and go when all they hold is settled', async () => {
  const { writer, folder } = writerWith();
  for (let n = 0; n < 40; n += 4) await writer.append(n, [0, 1, 2, 3].map((i) => event(n + i)), 0); // prettier-ignore
  const segments = (): string[] => readdirSync(folder).filter((name) => name.endsWith('.seg'));
  assert.ok(segments().length >= 4, String(segments()));
  assert.deepEqual(await readAll(writer, 0), numbers(0, 40));
  assert.deepEqual(await readAll(writer, 17), numbers(17, 40));
  const bytes = writer.bytes;
  writer.settle(20);
  assert.ok(writer.bytes < bytes);
  assert.deepEqual(await readAll(writer, 20), numbers(20, 40));
  writer.settle(40);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(segments().length <= 1);
  await writer.append(40, [event(40)], 40);
  assert.deepEqual(await readAll(writer, 40), ['40']);
  writer.close();
});

test('a limit is kept by name, and room made by settling can be used', async () => {
  const { writer } = writerWith({ maxBytes: 2000 });
  for (let n = 0; n < 14; n++) await writer.append(n, [event(n)], 0);
  await assert.rejects(writer.append(14, [event(14), event(15)], 0), { code: 'overloaded' });
  assert.throws(() => writer.appendSync(14, [event(14), event(15)], 0), { code: 'overloaded' });
  assert.deepEqual(await readAll(writer, 0), numbers(0, 14));
  writer.settle(14);
  await writer.append(14, [event(14), event(15)], 14);
  assert.deepEqual(await readAll(writer, 14), ['14', '15']);
  writer.close();
});

test('a synchronous write while another is under way goes to a file of its own; both are there', async () => {
  const { writer, folder } = writerWith({ segmentBytes: 1 << 20 });
  const many = Array.from({ length: 200 }, (_, n) => event(n, 2000));
  const writing = writer.append(0, many, 0);
  writer.appendSync(0, [...many, event(200)], 0);
  assert.deepEqual(await readAll(writer, 0), numbers(0, 201));
  await writing;
  assert.equal(readdirSync(folder).filter((name) => name.endsWith('.seg')).length, 2);
  assert.deepEqual(await readAll(writer, 0), numbers(0, 201));
  writer.close();
});

test('a folder that cannot be made is an error by name, and later writes try again', async () => {
  const { writer, folder } = writerWith();
  writeFileSync(folder, 'a file');
  await assert.rejects(writer.append(0, [event(0)], 0), { code: 'not_writable' });
  assert.throws(() => writer.appendSync(0, [event(0)], 0), { code: 'not_writable' });
  rmSync(folder);
  await writer.append(0, [event(0)], 0);
  assert.deepEqual(await readAll(writer, 0), ['0']);
  writer.close();
});

test('a mark says what is settled; a damaged record is a gap of known size, and overlapping files fill it', async () => {
  const { writer, folder } = writerWith({ segmentBytes: 1 << 20 });
  await writer.append(0, [event(0), event(1), event(2), event(3)], 0);
  await writer.append(4, [], 2);
  const file = join(folder, '00000001.seg');
  assert.equal(readSegment(readFileSync(file)).records.at(-1)?.settled, 2);
  const bytes = readFileSync(file);
  bytes[8 + 128 + 60] = 0;
  writeFileSync(file, bytes);
  assert.deepEqual(await readAll(writer, 0), ['0', 'lost', '2', '3']);
  const second = join(folder, '00000002.seg');
  const other = writerWith({ segmentBytes: 1 << 20 });
  await other.writer.append(1, [event(1), event(2)], 0);
  writeFileSync(second, readFileSync(join(other.folder, '00000001.seg')));
  const reader = segmentReader();
  const files = [{ path: file }, { path: second }];
  assert.equal((await reader.read(files, 1, LIMITS)).events.length, 2);
  assert.equal((await reader.read(files, 3, LIMITS)).events.length, 1);
  writer.close();
  other.writer.close();
});
