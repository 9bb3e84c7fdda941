/** What every blob store must do, whatever holds the bytes: one suite, run over each driver. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { isTapedeckError, type ErrorCode } from '../../base/errors.ts';
import { blobName } from './blob-name.ts';
import type { BlobStore } from './blob-store.ts';

/** An empty place to put blobs, and the means to look behind the driver. */
export interface BlobPlace {
  /** A new driver over the same place. */
  open(): Promise<BlobStore>;
  /** Names of all blobs there. */
  names(): Promise<string[]>;
  /** Overwrites what is stored under the name, as a failing disk would. */
  damage(sha256: string, content: Uint8Array): Promise<void>;
  /** A value that changes when the blob is written again. */
  writtenAt(sha256: string): Promise<unknown>;
  remove(): Promise<void>;
}

export const fails = (code: ErrorCode) => (error: unknown) => {
  assert.ok(isTapedeckError(error), `a TapedeckError, not ${String(error)}`);
  assert.equal(error.code, code, error.message);
  return true;
};

const TYPE = 'application/octet-stream';
const ABSENT = blobName(Buffer.from('never stored'));

interface Opened {
  readonly place: BlobPlace;
  readonly blobs: BlobStore;
}

/** `runs`: how many random contents the round trip tries. */
export function testBlobStore(name: string, makePlace: () => Promise<BlobPlace>, runs: number): void {
  describe(`blob store contract: ${name}`, () => {
    let place: BlobPlace;
    let blobs: BlobStore;
    before(async () => {
      place = await makePlace();
      blobs = await place.open();
    });
    after(async () => {
      await blobs?.close();
      await place?.remove();
    });
    const opened = (): Opened => ({ place, blobs });
    roundTrips(opened, runs);
    sharing(opened);
    badContent(opened);
    ending(opened);
  });
}

/** What goes in comes out. */
function roundTrips(opened: () => Opened, runs: number): void {
  test('any bytes come back as they were, also through another driver', async () => {
    const { place, blobs } = opened();
    const other = await place.open();
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 4096 }), async (content) => {
        const handle = await blobs.put(content, TYPE);
        assert.deepEqual(handle, { sha256: blobName(content), bytes: content.length, mediaType: TYPE });
        assert.ok(Buffer.from(await blobs.get(handle.sha256)).equals(content));
        assert.ok(Buffer.from(await other.get(handle.sha256)).equals(content));
      }),
      { numRuns: runs },
    );
    await other.close();
  });

  test('the empty blob is a blob', async () => {
    const { blobs } = opened();
    const handle = await blobs.put(new Uint8Array(), 'text/plain');
    assert.equal(handle.bytes, 0);
    assert.equal(handle.sha256, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
    assert.equal((await blobs.get(handle.sha256)).length, 0);
    assert.equal(await blobs.has(handle.sha256), true);
  });

  test('eight megabytes, given as a view into a larger buffer', async () => {
    const { blobs } = opened();
    const around = randomBytes(8 * 1024 * 1024 + 64);
    const content = around.subarray(32, around.length - 32);
    const handle = await blobs.put(content, TYPE);
    assert.equal(handle.bytes, 8 * 1024 * 1024);
    assert.ok(Buffer.from(await blobs.get(handle.sha256)).equals(content));
  });

  test('a buffer may be reused once it is stored', async () => {
    const { blobs } = opened();
    const content = randomBytes(1000);
    const original = Buffer.from(content);
    const { sha256 } = await blobs.put(content, TYPE);
    content.fill(0);
    assert.ok(Buffer.from(await blobs.get(sha256)).equals(original));
  });
}

/** One blob per content, whoever stores it. */
function sharing(opened: () => Opened): void {
  test('the same bytes twice are one blob, written once, whatever the media type', async () => {
    const { place, blobs } = opened();
    const content = randomBytes(5000);
    const first = await blobs.put(content, 'image/png');
    const written = await place.writtenAt(first.sha256);
    const second = await blobs.put(content, 'image/jpeg');
    assert.equal(second.sha256, first.sha256);
    assert.equal(second.mediaType, 'image/jpeg');
    assert.deepEqual(await place.writtenAt(first.sha256), written);
    assert.equal((await place.names()).filter((n) => n === first.sha256).length, 1);
  });

  test('many puts at once, of the same and of different bytes, through two drivers', async () => {
    const { place, blobs } = opened();
    const other = await place.open();
    const contents = Array.from({ length: 8 }, () => randomBytes(20_000));
    const puts = Array.from({ length: 48 }, (_, i) => (i % 2 === 0 ? blobs : other).put(contents[i % 8] as Buffer, TYPE));
    for (const { sha256 } of await Promise.all(puts)) {
      assert.equal(blobName(await blobs.get(sha256)), sha256);
    }
    await other.close();
    const names = await place.names();
    assert.equal(new Set(names).size, names.length);
  });
}

/** What is missing, misnamed or damaged. */
function badContent(opened: () => Opened): void {
  test('what is not there is missing by name', async () => {
    const { blobs } = opened();
    assert.equal(await blobs.has(ABSENT), false);
    await assert.rejects(blobs.get(ABSENT), fails('blob_missing'));
  });

  test('text that is no blob name reaches nothing', async () => {
    const { blobs } = opened();
    for (const name of ['', '..', '../../etc/passwd', ABSENT.toUpperCase(), `${ABSENT}0`, `${ABSENT.slice(0, 63)}/`, `${ABSENT}\n`]) {
      assert.equal(await blobs.has(name), false, JSON.stringify(name));
      await assert.rejects(blobs.get(name), fails('blob_missing'), JSON.stringify(name));
    }
  });

  test('damaged content is never handed out', async () => {
    const { place, blobs } = opened();
    const content = randomBytes(3000);
    const { sha256 } = await blobs.put(content, TYPE);
    const flipped = Buffer.from(content);
    flipped[1500] = (flipped[1500] as number) ^ 1;
    await place.damage(sha256, flipped);
    await assert.rejects(blobs.get(sha256), fails('blob_corrupt'));
    await place.damage(sha256, content.subarray(0, 2999));
    await assert.rejects(blobs.get(sha256), fails('blob_corrupt'));
    await place.damage(sha256, new Uint8Array());
    await assert.rejects(blobs.get(sha256), fails('blob_corrupt'));
  });

  test('storing again replaces content of the wrong size', async () => {
    const { place, blobs } = opened();
    const content = randomBytes(3000);
    const { sha256 } = await blobs.put(content, TYPE);
    await place.damage(sha256, content.subarray(0, 100));
    await blobs.put(content, TYPE);
    assert.ok(Buffer.from(await blobs.get(sha256)).equals(content));
  });
}

/** Aborts and close. */
function ending(opened: () => Opened): void {
  test('an aborted call ends by name and leaves nothing half done', async () => {
    const { blobs } = opened();
    const content = randomBytes(100_000);
    await assert.rejects(blobs.put(content, TYPE, AbortSignal.abort()), fails('aborted'));
    await assert.rejects(blobs.get(ABSENT, AbortSignal.abort()), fails('aborted'));
    await assert.rejects(blobs.has(ABSENT, AbortSignal.abort()), fails('aborted'));
    assert.equal(await blobs.has(blobName(content)), false);

    const stop = new AbortController();
    const put = blobs.put(content, TYPE, stop.signal);
    stop.abort();
    await assert.rejects(put, fails('aborted'));
    await blobs.put(content, TYPE);
    assert.ok(Buffer.from(await blobs.get(blobName(content))).equals(content));
  });

  test('close waits for what is under way, refuses what comes after, and may be called twice', async () => {
    const { place, blobs } = opened();
    const closing = await place.open();
    const content = randomBytes(50_000);
    const put = closing.put(content, TYPE);
    await Promise.all([closing.close(), closing.close()]);
    const { sha256 } = await put;
    await assert.rejects(closing.put(content, TYPE), fails('closed'));
    await assert.rejects(closing.get(sha256), fails('closed'));
    await assert.rejects(closing.has(sha256), fails('closed'));
    assert.ok(Buffer.from(await blobs.get(sha256)).equals(content));
  });
}
