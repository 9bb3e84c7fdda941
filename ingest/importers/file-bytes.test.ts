import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { fileBytes, MAX_PIECE_INFLATED } from './file-bytes.ts';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-files-'));
});
after(() => rm(folder, { recursive: true, force: true }));

const TEXT = Buffer.from(Array.from({ length: 40_000 }, (_, i) => `line ${i} ${(i * 7919) % 10_007}\n`).join(''));

async function put(name: string, bytes: Buffer): Promise<string> {
  await writeFile(join(folder, name), bytes);
  return join(folder, name);
}
/** What came out, and the code of the error that ended it. */
async function read(path: string, signal?: AbortSignal): Promise<{ bytes: Buffer; code: string | null; seen: number }> {
  const parts: Buffer[] = [];
  let seen = 0;
  try {
    for await (const chunk of fileBytes(path, { onRead: (n) => void (seen += n), ...(signal && { signal }) })) parts.push(chunk);
    return { bytes: Buffer.concat(parts), code: null, seen };
  } catch (error) {
    return { bytes: Buffer.concat(parts), code: (error as { code: string }).code, seen };
  }
}

test('plain, gzip, gzip in several members and zstd give the same bytes, whatever the name', async () => {
  const half = TEXT.length / 2;
  const forms = {
    plain: TEXT,
    'a.gz': gzipSync(TEXT),
    'members.jsonl': Buffer.concat([gzipSync(TEXT.subarray(0, half)), gzipSync(TEXT.subarray(half))]),
    'b.zst': zstdCompressSync(TEXT),
  };
  for (const [name, bytes] of Object.entries(forms)) {
    const result = await read(await put(name, bytes));
    assert.equal(result.code, null, name);
    assert.ok(result.bytes.equals(TEXT), name);
    assert.equal(result.seen, bytes.length, name);
  }
});

test('a cut file: everything before the cut comes out, then the error', async () => {
  for (const [name, whole] of [
    ['cut.gz', gzipSync(TEXT)],
    ['cut.zst', zstdCompressSync(TEXT)],
  ] as const) {
    const result = await read(await put(name, whole.subarray(0, Math.floor(whole.length * 0.9))));
    assert.equal(result.code, 'truncated_body', name);
    assert.ok(TEXT.subarray(0, result.bytes.length).equals(result.bytes), name);
  }
  const cut = gzipSync(TEXT);
  const result = await read(await put('cut-near-end.gz', cut.subarray(0, -4)));
  assert.equal(result.bytes.length, TEXT.length);
  assert.equal(result.code, 'truncated_body');
});

test('damage inside a compressed file is named', async () => {
  const bytes = Buffer.from(gzipSync(TEXT));
  bytes.fill(0xaa, 2000, 2100);
  assert.equal((await read(await put('bad.gz', bytes))).code, 'broken_compression');
});

test('bytes after the end of a compressed file do not hang the reader and lose nothing before them', async () => {
  const noise = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 31) % 251));
  for (const [name, whole] of [
    ['tail.gz', gzipSync(TEXT)],
    ['tail.zst', zstdCompressSync(TEXT)],
  ] as const) {
    for (const tail of [noise, Buffer.alloc(70_000)]) {
      const result = await read(await put(name, Buffer.concat([whole, tail])));
      assert.ok(result.bytes.equals(TEXT), name);
      assert.ok(result.code === null || result.code === 'broken_compression' || result.code === 'truncated_body', String(result.code));
    }
  }
});

test('a compression bomb is stopped', async () => {
  const bomb = zstdCompressSync(Buffer.alloc(MAX_PIECE_INFLATED + 1024 * 1024));
  assert.equal((await read(await put('bomb.zst', bomb))).code, 'inflated_too_large');
});

test('a missing file and an abort have their codes; an empty file is empty', async () => {
  assert.equal((await read(join(folder, 'nothing'))).code, 'not_found');
  assert.deepEqual(await read(await put('empty', Buffer.alloc(0))), { bytes: Buffer.alloc(0), code: null, seen: 0 });
  assert.equal((await read(await put('some', TEXT), AbortSignal.abort())).code, 'aborted');
});
