import { once } from 'node:events';
import type { WriteStream } from 'node:tty';
import { colours, plain } from './paint.ts';
import type { Paint } from './paint.ts';

const DEFAULT_COLUMNS = 80;

/** How to write to a stream: width and colours of a terminal (NO_COLOR and dumb terminals honoured by `hasColors`), none for files and pipes. */
export function terminalOf(stream: NodeJS.WriteStream | WriteStream): {
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly paint: Paint;
} {
  const isTerminal = stream.isTTY === true;
  return { isTerminal, columns: stream.columns ?? DEFAULT_COLUMNS, paint: isTerminal && stream.hasColors() ? colours : plain };
}

/** Writes with back-pressure. False when the reader of the pipe has gone (`| head`), which is no error. */
export async function write(stream: NodeJS.WritableStream, chunk: string | Uint8Array): Promise<boolean> {
  if (!stream.writable) return false;
  if (!stream.write(chunk)) await Promise.race([once(stream, 'drain'), once(stream, 'close')]);
  return stream.writable;
}

/** A pipe whose reader has gone ends the command quietly instead of with a stack. */
export function tolerateClosedPipe(stream: NodeJS.WritableStream): void {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}
