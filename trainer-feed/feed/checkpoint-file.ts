/**
 * Checkpoints of a feed's state on this machine: a derived cache that makes a restart quick. Each file is written whole, synced, then renamed into place, and carries
 * a version and a hash; the newest good one is used, and without one the log is folded from the feed's start. The two newest are kept.
 */
import { hash } from 'node:crypto';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { makeDurable, syncFolder } from '../../store/blobs/durable-folders.ts';

/** Goes up whenever the state or its coding changes: older files are then not read. */
const VERSION = 3;
const MAGIC = 'TDFEED01';
const HEAD_BYTES = 8 + 4 + 32;
const KEPT = 2;
const NAME = /^(\d{16})\.checkpoint$/;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

export type CheckpointFile = { readonly sequence: number; readonly content: Uint8Array };

/** Writes checkpoint `sequence` (a number that grows) and removes old ones. It is durable when this resolves. */
export async function writeCheckpoint(directory: string, { sequence, content }: CheckpointFile): Promise<void> {
  await makeDurable(directory);
  const body = await compress(content);
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(MAGIC, 0, 'latin1');
  head.writeUInt32LE(VERSION, 8);
  hash('sha256', body, 'buffer').copy(head, 12);
  const path = join(directory, nameOf(sequence));
  const file = await open(`${path}.part`, 'w', 0o600);
  try {
    await file.writev([head, body]);
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(`${path}.part`, path);
  await syncFolder(directory);
  const old = (await sequences(directory)).slice(KEPT);
  await Promise.all(old.map((each) => rm(join(directory, nameOf(each)), { force: true })));
}

/** The newest checkpoint that is whole and of this version, or null. */
export async function readCheckpoint(directory: string): Promise<CheckpointFile | null> {
  for (const sequence of await sequences(directory)) {
    const content = await contentOf(join(directory, nameOf(sequence)));
    if (content !== null) return { sequence, content };
  }
  return null;
}

/** Removes all checkpoints: what they say cannot be used. */
export async function removeCheckpoints(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
}

function nameOf(sequence: number): string {
  return `${String(sequence).padStart(16, '0')}.checkpoint`;
}

/** Newest first. */
async function sequences(directory: string): Promise<number[]> {
  const files = await readdir(directory).catch(() => []);
  return files
    .flatMap((file) => NAME.exec(file)?.[1] ?? [])
    .map(Number)
    .toSorted((a, b) => b - a);
}

async function contentOf(path: string): Promise<Uint8Array | null> {
  const bytes = await readFile(path).catch(() => null);
  if (bytes === null || bytes.length < HEAD_BYTES || bytes.toString('latin1', 0, 8) !== MAGIC || bytes.readUInt32LE(8) !== VERSION)
    return null;
  const body = bytes.subarray(HEAD_BYTES);
  if (!hash('sha256', body, 'buffer').equals(bytes.subarray(12, HEAD_BYTES))) return null;
  return decompress(body).catch(() => null);
}
