/**
 * Events that will not be in the log, one JSON line each: `{time, seq, code, message, field?, event}`, `event` the CBOR in base64 (null when it was lost), `time` in
 * microseconds. At least once: a kill between the line and what follows from it gives the line again.
 */
import { appendFile, mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Rejected } from './reports.ts';

export function rejectedLine({ seq, code, message, field, event }: Rejected, time: number): string {
  const base64 = event === null ? null : Buffer.from(event.buffer, event.byteOffset, event.byteLength).toString('base64');
  return `${JSON.stringify({ time, seq, code, message, ...(field !== undefined && { field }), event: base64 })}\n`;
}

/** Errors of the file system are thrown. */
export async function appendRejected(file: string, rejected: readonly Rejected[], time: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await appendFile(file, rejected.map((each) => rejectedLine(each, time)).join(''), { mode: 0o600 });
}
