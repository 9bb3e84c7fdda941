/** Splits a stream of bytes into lines in bounded memory. Only LF ends a line (CR before it is dropped): U+2028 and the like are text. */
import { TapedeckError } from '../../base/errors.ts';

const LF = 0x0a;
const CR = 0x0d;
const BOM = [0xef, 0xbb, 0xbf];

/** Longest line that is read; longer ones are named and skipped. One V8 string holds at most 2^29 - 24 characters. */
export const MAX_LINE_BYTES = 512 * 1024 * 1024;

export type Line = {
  /** Counted from 1, blank lines included. */
  readonly number: number;
  /** The bytes without the line ending and without a byte order mark; null when the line was longer than the limit. */
  readonly bytes: Buffer | null;
  /** Length in the file, without the line feed. */
  readonly length: number;
  /** False when the file ended without a line feed: what a writer leaves that was killed while it wrote, or a missing final newline. */
  readonly terminated: boolean;
};

/**
 * Yields the lines of each chunk together; blank lines are left out. When the source fails, the beginning of a line that had arrived is yielded
 * (not terminated) before the error goes on.
 */
export async function* readLines(source: AsyncIterable<Buffer>, maxLineBytes = MAX_LINE_BYTES): AsyncGenerator<Line[]> {
  const splitter = lineSplitter(maxLineBytes);
  try {
    for await (const chunk of source) {
      const lines = splitter.push(chunk);
      if (lines.length > 0) yield lines;
    }
  } catch (error) {
    const torn = splitter.end();
    if (torn.length > 0) yield torn;
    throw error;
  }
  const last = splitter.end();
  if (last.length > 0) yield last;
}

function lineSplitter(maxLineBytes: number): { push(chunk: Buffer): Line[]; end(): Line[] } {
  if (!(maxLineBytes > 0)) throw new TapedeckError('usage', 'the longest line must be > 0 bytes');
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let number = 0;

  const keep = (part: Buffer): void => {
    pendingBytes += part.length;
    if (pendingBytes > maxLineBytes) pending = [];
    else if (part.length > 0) pending.push(part);
  };
  const finish = (last: Buffer, terminated: boolean, lines: Line[]): void => {
    number++;
    keep(last);
    const length = pendingBytes;
    const bytes =
      length > maxLineBytes ? null : trimmed(pending.length === 1 ? (pending[0] as Buffer) : Buffer.concat(pending), number === 1);
    pending = [];
    pendingBytes = 0;
    if (bytes === null || !isBlank(bytes)) lines.push({ number, bytes, length, terminated });
  };
  return {
    push: (chunk) => {
      const lines: Line[] = [];
      let at = 0;
      for (let lf = chunk.indexOf(LF); lf >= 0; lf = chunk.indexOf(LF, at)) {
        finish(chunk.subarray(at, lf), true, lines);
        at = lf + 1;
      }
      keep(chunk.subarray(at));
      return lines;
    },
    end: () => {
      const lines: Line[] = [];
      if (pendingBytes > 0) finish(Buffer.alloc(0), false, lines);
      return lines;
    },
  };
}

function trimmed(bytes: Buffer, first: boolean): Buffer {
  const start = first && BOM.every((b, i) => bytes[i] === b) ? BOM.length : 0;
  const end = bytes.at(-1) === CR ? bytes.length - 1 : bytes.length;
  return bytes.subarray(start, Math.max(start, end));
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((b) => b === 0x20 || b === 0x09 || b === CR);
}
