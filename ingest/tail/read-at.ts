/** Reads what is complete of a growing file: whole lines from a place on, in bounded memory. */
import type { FileHandle } from 'node:fs/promises';
import { HEAD_MARK_BYTES, markOf, TAIL_MARK_BYTES } from './place.ts';

const LF = 0x0a;
/** Read at once; a longer line is read alone. */
export const CHUNK_BYTES = 4 * 1024 * 1024;

/** What can be taken at a place. `lines` counts line feeds. */
export type Taken =
  | { readonly kind: 'lines'; readonly bytes: Buffer; readonly end: number; readonly lines: number }
  /** A line longer than the limit, up to and with its line feed. */
  | { readonly kind: 'too-long'; readonly length: number; readonly end: number }
  /** No complete line: looked at up to `scanned`. */
  | { readonly kind: 'nothing'; readonly scanned: number };

/**
 * The complete lines at `from`, as many as fit in a chunk, but at least one when there is one. `scanned` says up to where an earlier call found no line feed, so that a
 * long line that grows slowly is not read over and over.
 */
export async function readAt(
  file: FileHandle,
  from: number,
  size: number,
  options: { readonly maxLineBytes: number; readonly scanned?: number },
): Promise<Taken> {
  const scanned = Math.max(options.scanned ?? 0, from);
  if (scanned === from) {
    const bytes = await bytesAt(file, from, Math.min(size, from + CHUNK_BYTES));
    const last = bytes.lastIndexOf(LF);
    if (last >= 0)
      return { kind: 'lines', bytes: bytes.subarray(0, last + 1), end: from + last + 1, lines: count(bytes.subarray(0, last + 1)) };
    if (from + bytes.length >= size || bytes.length === 0) return { kind: 'nothing', scanned: from + bytes.length };
  }
  const found = await findLineFeed(file, Math.max(scanned, from), size);
  if (found === null) return { kind: 'nothing', scanned: size };
  const length = found - from;
  if (length > options.maxLineBytes) return { kind: 'too-long', length, end: found + 1 };
  return { kind: 'lines', bytes: await bytesAt(file, from, found + 1), end: found + 1, lines: 1 };
}

async function findLineFeed(file: FileHandle, from: number, size: number): Promise<number | null> {
  for (let at = from; at < size;) {
    const bytes = await bytesAt(file, at, Math.min(size, at + CHUNK_BYTES));
    if (bytes.length === 0) return null;
    const found = bytes.indexOf(LF);
    if (found >= 0) return at + found;
    at += bytes.length;
  }
  return null;
}

/** The bytes [from, to); fewer when the file ends before. */
export async function bytesAt(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.max(0, to - from));
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, from + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return buffer.subarray(0, length);
}

/** The mark of `offset` in the file as it is now. */
export async function markAt(file: FileHandle, offset: number): Promise<string> {
  const head = await bytesAt(file, 0, Math.min(offset, HEAD_MARK_BYTES));
  return markOf(head, await bytesAt(file, Math.max(0, offset - TAIL_MARK_BYTES), offset));
}

function count(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines++;
  return lines;
}
