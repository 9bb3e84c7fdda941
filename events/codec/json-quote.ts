import type { ByteWriter } from '../../base/byte-writer.ts';

/** What a byte becomes inside a JSON string; null for bytes that stand for themselves. The same choices as JSON.stringify. */
const ESCAPES: readonly (string | null)[] = Array.from({ length: 256 }, (_, b) =>
  b < 0x20 || b === 0x22 || b === 0x5c ? JSON.stringify(String.fromCharCode(b)).slice(1, -1) : null,
);
const PLAIN = Uint8Array.from(ESCAPES, (e) => (e === null ? 1 : 0));
const COPY_BY_LOOP = 24;

/** Appends UTF-8 text as a JSON string: runs of plain bytes are copied. */
export function writeQuoted(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  out.byte(0x22);
  let run = start;
  for (let p = start; p <= end; p++) {
    if (p < end && PLAIN[bytes[p] as number] === 1) continue;
    copyRun(bytes, run, p, out);
    if (p === end) break;
    const escape = ESCAPES[bytes[p] as number] as string;
    out.reserve(escape.length).write(escape, out.length, 'latin1');
    out.length += escape.length;
    run = p + 1;
  }
  out.byte(0x22);
}

function copyRun(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  const length = end - start;
  const target = out.reserve(length);
  const at = out.length;
  if (length > COPY_BY_LOOP) bytes.copy(target, at, start, end);
  else for (let i = 0; i < length; i++) target[at + i] = bytes[start + i] as number;
  out.length = at + length;
}
