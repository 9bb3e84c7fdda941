/**
 * The row file: token columns of finished nodes, written once, appended to segments on this machine. A cache: everything in it is in the log. In memory there are only
 * handles (segment, start, length, crc). A segment whose nodes are all released is deleted, but not before a checkpoint that does not need it is durable.
 */
import { closeSync, constants, fdatasync, openSync, readdirSync, readSync, rmSync, fstatSync, writeSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnsStore, TokenColumns } from '../groups/group-facts.ts';
import type { LoadColumns, LoadedColumns } from '../groups/member-trace.ts';
import { HAS_COLUMN, type ColumnsRef } from '../groups/rollout-facts.ts';
import type { PackedArray } from '../../events/packed-array.ts';

export type SegmentState = { readonly id: number; readonly bytes: number; readonly live: number };

export type RowFile = ColumnsStore &
  LoadColumns & {
    /** What a checkpoint of now must remember to open the file again; everything kept until now is durable once `durable` resolves. One at a time. */
    readonly sync: () => { readonly segments: readonly SegmentState[]; readonly durable: Promise<void> };
    /** Deletes segments that nothing refers to since before the last `sync`: call it when the checkpoint with its answer is durable. */
    readonly clean: () => void;
    readonly bytes: () => number;
    readonly close: () => void;
  };

export type RowFileOptions = {
  readonly directory: string;
  /** What the checkpoint remembered; null = start empty. */
  readonly segments: readonly SegmentState[] | null;
  /** A segment is closed at this size, bytes. */
  readonly segmentBytes?: number;
  /** So much is gathered before it is written, bytes. */
  readonly bufferBytes?: number;
};

type Segment = { readonly id: number; readonly fd: number; written: number; live: number };

const SEGMENT_BYTES = 64 * 1024 * 1024;
const BUFFER_BYTES = 1024 * 1024;
const datasync = promisify(fdatasync);

/** Opens the row file. Throws `cache_corrupt` when a segment is gone or short: then the caller folds the log anew with an empty one. */
export async function openRowFile(options: RowFileOptions): Promise<RowFile> {
  const { directory, segmentBytes = SEGMENT_BYTES, bufferBytes = BUFFER_BYTES } = options;
  await mkdir(directory, { recursive: true });
  const segments = openSegments(directory, options.segments ?? []);
  let current: Segment | null = null;
  let nextId = Math.max(0, ...segments.keys()) + 1;
  let buffer = Buffer.allocUnsafeSlow(bufferBytes);
  let filled = 0;
  /** Segments without live bytes at the last sync. */
  let dead: Segment[] = [];
  /** Written to since the last sync. */
  const unsynced = new Set<Segment>();

  const flush = (): void => {
    if (current === null || filled === 0) return;
    for (let at = 0; at < filled;) at += write(current.fd, buffer, at, filled - at, current.written + at);
    current.written += filled;
    filled = 0;
    unsynced.add(current);
  };
  const segmentFor = (bytes: number): Segment => {
    if (current !== null && current.written + filled + bytes <= segmentBytes) return current;
    flush();
    current = { id: nextId++, fd: 0, written: 0, live: 0 };
    current = { ...current, fd: openSync(fileOf(directory, current.id), 'w+', 0o600) };
    segments.set(current.id, current);
    return current;
  };
  const keep = (bytes: number, columns: number, fill: (target: Buffer) => void): ColumnsRef => {
    const segment = segmentFor(bytes);
    if (filled + bytes > buffer.length) flush();
    if (bytes > buffer.length) buffer = Buffer.allocUnsafeSlow(bytes);
    const target = buffer.subarray(filled, filled + bytes);
    fill(target);
    const ref = { segment: segment.id, start: segment.written + filled, bytes, crc: crc32(target), columns };
    filled += bytes;
    segment.live += bytes;
    return ref;
  };
  const read = (ref: ColumnsRef): ArrayBuffer => {
    const segment = segments.get(ref.segment);
    if (segment === undefined) throw corrupt(directory, `segment ${ref.segment} is gone`);
    const target = new ArrayBuffer(ref.bytes);
    const bytes = new Uint8Array(target);
    if (segment === current && ref.start >= segment.written) {
      bytes.set(buffer.subarray(ref.start - segment.written, ref.start - segment.written + ref.bytes));
    } else readWhole(segment, bytes, ref.start, directory);
    if (crc32(bytes) !== ref.crc) throw corrupt(directory, `segment ${ref.segment} is damaged at ${ref.start}`);
    return target;
  };

  return {
    keep: (tokens) => {
      const { bytes, columns } = shapeOf(tokens);
      return keep(bytes, columns, (target) => writeColumns(tokens, target));
    },
    keepScores: (logprobs) => keep(logprobs.bytes.length, HAS_COLUMN.scores, (target) => target.set(logprobs.bytes)),
    release: (ref) => {
      const segment = segments.get(ref.segment);
      if (segment !== undefined) segment.live -= ref.bytes;
    },
    tokens: (ref, length, masked) => readColumns(read(ref), ref.columns, length, masked),
    scores: (ref) => new Float32Array(read(ref)),
    sync: () => {
      flush();
      dead = [...segments.values()].filter((segment) => segment.live <= 0 && segment !== current);
      const kept = [...segments.values()].filter((segment) => !dead.includes(segment));
      const durable = Promise.all(kept.filter((segment) => unsynced.has(segment)).map(({ fd }) => datasync(fd))).then(() => {});
      unsynced.clear();
      return { segments: kept.map(({ id, written, live }) => ({ id, bytes: written, live })), durable };
    },
    clean: () => {
      for (const segment of dead) {
        closeSync(segment.fd);
        segments.delete(segment.id);
        rmSync(fileOf(directory, segment.id), { force: true });
      }
      dead = [];
    },
    bytes: () => [...segments.values()].reduce((sum, { written }) => sum + written, filled),
    close: () => {
      flush();
      for (const { fd } of segments.values()) closeSync(fd);
      segments.clear();
      current = null;
    },
  };
}

function fileOf(directory: string, id: number): string {
  return join(directory, `${String(id).padStart(8, '0')}.rows`);
}

function corrupt(directory: string, what: string): TapedeckError {
  return new TapedeckError('cache_corrupt', `the row file in ${directory} cannot be used: ${what}; it is made anew from the log`);
}

/** Opens what the checkpoint knows and deletes what it does not. Nothing is appended to these again. */
function openSegments(directory: string, known: readonly SegmentState[]): Map<number, Segment> {
  const wanted = new Set(known.map(({ id }) => `${String(id).padStart(8, '0')}.rows`));
  for (const file of readdirSync(directory)) if (!wanted.has(file)) rmSync(join(directory, file), { force: true, recursive: true });
  const segments = new Map<number, Segment>();
  try {
    for (const { id, bytes, live } of known) {
      const fd = openSync(fileOf(directory, id), constants.O_RDONLY);
      segments.set(id, { id, fd, written: bytes, live });
      if (fstatSync(fd).size < bytes) throw corrupt(directory, `segment ${id} is shorter than ${bytes} bytes`);
    }
    return segments;
  } catch (error) {
    for (const { fd } of segments.values()) closeSync(fd);
    if (error instanceof TapedeckError) throw error;
    throw corrupt(directory, 'a segment cannot be opened');
  }
}

function write(fd: number, buffer: Buffer, at: number, length: number, position: number): number {
  try {
    return writeSync(fd, buffer, at, length, position);
  } catch (cause) {
    const full = (cause as NodeJS.ErrnoException).code === 'ENOSPC';
    throw new TapedeckError(full ? 'disk_full' : 'not_writable', `the row file cannot be written${full ? ': the disk is full' : ''}`, {
      cause,
    });
  }
}

function readWhole(segment: Segment, into: Uint8Array, start: number, directory: string): void {
  for (let at = 0; at < into.length;) {
    const count = readSync(segment.fd, into, at, into.length - at, start + at);
    if (count === 0) throw corrupt(directory, `segment ${segment.id} ends early`);
    at += count;
  }
}

function shapeOf({ ids, mask, isContent, logprobs, referenceLogprobs }: TokenColumns): { bytes: number; columns: number } {
  const columns =
    (isContent ? HAS_COLUMN.content : 0) | (logprobs ? HAS_COLUMN.logprobs : 0) | (referenceLogprobs ? HAS_COLUMN.reference : 0);
  const bytes =
    ids.bytes.length +
    (logprobs?.bytes.length ?? 0) +
    (referenceLogprobs?.bytes.length ?? 0) +
    mask.bytes.length +
    (isContent?.bytes.length ?? 0);
  return { bytes, columns };
}

/** ids, logprobs, reference logprobs (4 bytes each), then mask and content (1 byte each). */
function writeColumns({ ids, mask, isContent, logprobs, referenceLogprobs }: TokenColumns, target: Buffer): void {
  let at = 0;
  const put = (column: PackedArray | null | undefined): void => {
    if (column === null || column === undefined) return;
    target.set(column.bytes, at);
    at += column.bytes.length;
  };
  for (const column of [ids, logprobs, referenceLogprobs, mask, isContent]) put(column);
}

function readColumns(buffer: ArrayBuffer, columns: number, length: number, masked: number): LoadedColumns {
  let at = 0;
  const take = (present: boolean, bytes: number): number | null => {
    if (!present) return null;
    const start = at;
    at += bytes;
    return start;
  };
  const ids = take(true, 4 * length) as number;
  const logprobs = take((columns & HAS_COLUMN.logprobs) !== 0, 4 * masked);
  const reference = take((columns & HAS_COLUMN.reference) !== 0, 4 * masked);
  const mask = take(true, length) as number;
  const content = take((columns & HAS_COLUMN.content) !== 0, length);
  return {
    ids: new Uint32Array(buffer, ids, length),
    mask: new Uint8Array(buffer, mask, length),
    isContent: content === null ? null : new Uint8Array(buffer, content, length),
    logprobs: logprobs === null ? null : new Float32Array(buffer, logprobs, masked),
    referenceLogprobs: reference === null ? null : new Float32Array(buffer, reference, masked),
  };
}
