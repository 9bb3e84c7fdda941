/** Server-sent events to bytes. */
import { TapedeckError } from '../../../base/errors.ts';
import type { SseFrame } from './sse-event.ts';

const LINE_END = /\r\n|\r|\n/;

/** One event. Line ends in `data` make several data lines (a reader joins them with LF). Throws `internal` for a name with a line end, or text that UTF-8 cannot hold. */
export function encodeSse(frame: SseFrame): Uint8Array {
  const { name, data } = frame;
  if (name !== null && LINE_END.test(name)) throw new TapedeckError('internal', 'the name of an event must be one line');
  if (!data.isWellFormed()) throw new TapedeckError('internal', 'the data of an event holds a lone surrogate that is not escaped');
  const lines = LINE_END.test(data) ? data.split(LINE_END) : [data];
  return Buffer.from(`${name === null ? '' : `event: ${name}\n`}${lines.map((line) => `data: ${line}\n`).join('')}\n`);
}

/** A comment, which keeps a connection awake and says nothing to its reader. */
export function encodeSseComment(text: string): Uint8Array {
  return Buffer.from(
    `${text
      .split(LINE_END)
      .map((line) => `: ${line}\n`)
      .join('')}\n`,
  );
}
