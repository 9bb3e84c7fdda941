/**
 * The segments of one living session: appended in order, removed when all their events are settled. A record that could not be written whole is cut off again; where
 * that fails, writing goes on in a new file. Synchronous writes, at exit or on demand, go to a new file when another write is under way.
 */
import {
  closeSync,
  constants,
  fdatasync,
  fdatasyncSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  rmSync,
  unlink,
  write,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { TapedeckError } from '../../base/errors.ts';
import { recordHead, SEGMENT_HEAD } from './segment-codec.ts';
import type { SegmentFile } from './segment-files.ts';
import { spoolError } from './spool-error.ts';

export type WriterOptions = {
  readonly folder: string;
  /** Contents of owner.json, written before the first segment. */
  readonly owner: object;
  readonly maxBytes: number;
  readonly segmentBytes: number;
  /** Wait for the disk, so that a power loss is survived too. */
  readonly fsync: boolean;
};

export type SessionWriter = {
  /** Bytes of all segments. */
  readonly bytes: number;
  /** Whether any record was ever written: without one there is no folder. */
  readonly used: boolean;
  /** Appends events `from`, `from + 1`, …; or, without events, a mark. Throws `overloaded` (over maxBytes), `disk_full`, `not_writable`; then none of them counts as written. */
  append(from: number, events: readonly Uint8Array[], settled: number): Promise<void>;
  appendSync(from: number, events: readonly Uint8Array[], settled: number): void;
  /** Segments that may hold `seq` or later numbers, oldest first. */
  filesFrom(seq: number): readonly SegmentFile[];
  /** Every number below is settled: whole segments below it go. */
  settle(settled: number): void;
  close(): void;
};

type Segment = { readonly path: string; readonly fd: number; bytes: number; end: number; busy: number; isOpen: boolean; isClosed: boolean };
type Files = { readonly options: WriterOptions; segments: Segment[]; ordinal: number; bytes: number; madeFolder: boolean };

export function sessionWriter(options: WriterOptions): SessionWriter {
  const files: Files = { options, segments: [], ordinal: 0, bytes: 0, madeFolder: false };
  return {
    get bytes() {
      return files.bytes;
    },
    get used() {
      return files.madeFolder;
    },
    append: (from, events, settled) => append(files, from, events, settled),
    appendSync: (from, events, settled) => appendSync(files, from, events, settled),
    filesFrom: (seq) => files.segments.filter(({ end }) => end > seq).map(({ path, bytes }) => ({ path, bytes })),
    settle: (settled) => {
      const isDone = ({ end, busy }: Segment): boolean => end <= settled && busy === 0;
      for (const segment of files.segments.filter((each) => isDone(each) && !each.isOpen)) drop(files, segment);
      const last = files.segments.at(-1);
      // an open one is kept while it is small: most sessions need no other
      if (last !== undefined && isDone(last) && last.bytes > Math.min(options.segmentBytes / 8, 1 << 20)) drop(files, last);
    },
    close: () => {
      for (const segment of files.segments) finish(segment);
    },
  };
}

async function append(files: Files, from: number, events: readonly Uint8Array[], settled: number): Promise<void> {
  let segment: Segment | null = null;
  try {
    segment = current(files);
    const block = blockOf(files, segment, from, events, settled);
    segment.busy++;
    try {
      await writeAll(segment.fd, block);
      if (files.options.fsync) await synced(segment.fd);
      wrote(files, segment, from, events, block);
    } finally {
      segment.busy--;
      if (!segment.isOpen) finish(segment);
    }
  } catch (error) {
    if (segment !== null && segment.isOpen) undo(segment);
    throw spoolError(error, 'be written');
  }
}

function appendSync(files: Files, from: number, events: readonly Uint8Array[], settled: number): void {
  let segment: Segment | null = null;
  try {
    const last = files.segments.at(-1);
    if (last !== undefined && last.busy > 0) finish(last);
    segment = current(files);
    const block = blockOf(files, segment, from, events, settled);
    for (let at = 0; at < block.length;) at += writeSync(segment.fd, block, at, block.length - at);
    if (files.options.fsync) fdatasyncSync(segment.fd);
    wrote(files, segment, from, events, block);
  } catch (error) {
    if (segment !== null && segment.isOpen) undo(segment);
    throw spoolError(error, 'be written');
  }
}

/** The segment to append to: the last one while it has room, else a new one. */
function current(files: Files): Segment {
  const last = files.segments.at(-1);
  if (last !== undefined && last.isOpen && last.bytes < files.options.segmentBytes) return last;
  if (last !== undefined) finish(last);
  return open(files);
}

function open(files: Files): Segment {
  const { folder, owner, fsync } = files.options;
  if (!files.madeFolder) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'owner.json'), JSON.stringify(owner));
    files.madeFolder = true;
  }
  const path = join(folder, `${String(++files.ordinal).padStart(8, '0')}.seg`);
  const fd = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND, 0o600);
  const segment: Segment = { path, fd, bytes: 0, end: 0, busy: 0, isOpen: true, isClosed: false };
  files.segments.push(segment);
  if (fsync) syncFolder(folder);
  return segment;
}

function blockOf(files: Files, segment: Segment, from: number, events: readonly Uint8Array[], settled: number): Buffer {
  const parts: Uint8Array[] = segment.bytes === 0 ? [SEGMENT_HEAD] : [];
  if (events.length === 0) parts.push(recordHead(from, settled, new Uint8Array()));
  for (const [i, event] of events.entries()) parts.push(recordHead(from + i, settled, event), event);
  const block = Buffer.concat(parts);
  const { maxBytes } = files.options;
  // a mark makes room rather than takes it
  if (events.length > 0 && files.bytes + block.length > maxBytes)
    throw new TapedeckError(
      'overloaded',
      `the spool has reached its limit of ${maxBytes} bytes: raise it, or let the server take what is there`,
    );
  return block;
}

function wrote(files: Files, segment: Segment, from: number, events: readonly Uint8Array[], block: Buffer): void {
  segment.bytes += block.length;
  files.bytes += block.length;
  if (events.length > 0) segment.end = Math.max(segment.end, from + events.length);
}

/** What was written of a block that failed is cut off; where that cannot be, the file is left as it is and no more goes into it. */
function undo(segment: Segment): void {
  try {
    ftruncateSync(segment.fd, segment.bytes);
  } catch {
    finish(segment);
  }
}

/** No more is appended to it; its file is closed once nothing is being written. */
function finish(segment: Segment): void {
  segment.isOpen = false;
  if (segment.busy > 0 || segment.isClosed) return;
  segment.isClosed = true;
  closeSync(segment.fd);
}

function drop(files: Files, segment: Segment): void {
  finish(segment);
  files.segments.splice(files.segments.indexOf(segment), 1);
  files.bytes -= segment.bytes;
  unlink(segment.path, () => {});
}

/** The name of a new file is durable only when its folder is. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, constants.O_RDONLY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

async function writeAll(fd: number, block: Buffer): Promise<void> {
  for (let at = 0; at < block.length;) at += await written(fd, block, at);
}

function written(fd: number, block: Buffer, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, block, at, block.length - at, null, (error, count) => (error === null ? resolve(count) : reject(error)));
  });
}

function synced(fd: number): Promise<void> {
  return new Promise((resolve, reject) => fdatasync(fd, (error) => (error === null ? resolve() : reject(error))));
}
