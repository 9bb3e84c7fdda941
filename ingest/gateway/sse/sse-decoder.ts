/**
 * Server-sent events from bytes, in any chunking: LF, CR and CRLF ends, a byte order mark, comments, several data lines, UTF-8 cut anywhere. The
 * bytes are looked at once; lines become text only when their block is complete, so nothing is decoded twice or across a cut.
 */
import { isUtf8 } from 'node:buffer';
import { fail, type Problem } from '../../../base/result.ts';
import type { SseDecoder, SseEvent } from './sse-event.ts';

const [LF, CR, COLON, SPACE] = [0x0a, 0x0d, 0x3a, 0x20];
/** Room kept when a block is done; a larger buffer is given back. */
const KEEP_BYTES = 64 * 1024;

/** What is being read. `lines` holds start and end of the lines of the open block, as offsets into `bytes`. */
type Reader = {
  readonly maxEventBytes: number;
  bytes: Buffer;
  length: number;
  /** Where the open block begins, where its open line begins, and how far was looked. */
  block: number;
  line: number;
  at: number;
  /** The next CR and the next LF, each -1 when there is none up to `length`: no byte is looked at again for either. */
  nextCr: number;
  nextLf: number;
  lines: number[];
  /** A CR ended the last line: a LF that follows belongs to it. */
  afterCr: boolean;
  started: boolean;
  closed: boolean;
};

/** `maxEventBytes` bounds one block, its line ends included: beyond it comes one `broken` block (`sse_event_too_large`), then nothing. */
export function createSseDecoder(options: { readonly maxEventBytes: number }): SseDecoder {
  const r: Reader = {
    maxEventBytes: options.maxEventBytes,
    bytes: Buffer.allocUnsafeSlow(4096),
    length: 0,
    block: 0,
    line: 0,
    at: 0,
    nextCr: -1,
    nextLf: -1,
    lines: [],
    afterCr: false,
    started: false,
    closed: false,
  };
  return {
    push: (chunk) => push(r, chunk),
    end: () => end(r),
    get heldBytes() {
      return r.length - r.block;
    },
  };
}

function push(r: Reader, chunk: Uint8Array): readonly SseEvent[] {
  if (r.closed || chunk.length === 0) return [];
  append(r, chunk);
  const events: SseEvent[] = [];
  for (let stop = nextLineEnd(r); stop >= 0; stop = nextLineEnd(r)) {
    const isBlank = endLine(r, stop);
    if (r.at - r.block > r.maxEventBytes) break;
    if (isBlank) events.push(takeBlock(r));
  }
  if (r.length - r.block > r.maxEventBytes) events.push(tooLarge(r));
  return events;
}

/** Moves the open block to the front when there is no room behind it. */
function append(r: Reader, chunk: Uint8Array): void {
  const held = r.length - r.block;
  if (r.length + chunk.length > r.bytes.length) {
    const need = held + chunk.length;
    const shrink = held === 0 && r.bytes.length > KEEP_BYTES;
    const target = need > r.bytes.length || shrink ? Buffer.allocUnsafeSlow(Math.max(need, shrink ? 4096 : 2 * r.bytes.length)) : r.bytes;
    r.bytes.copy(target, 0, r.block, r.length);
    r.bytes = target;
    for (let i = 0; i < r.lines.length; i++) r.lines[i] = (r.lines[i] as number) - r.block;
    r.line -= r.block;
    r.at -= r.block;
    r.length = held;
    r.block = 0;
  }
  r.bytes.set(chunk, r.length);
  r.length += chunk.length;
  r.nextCr = findByte(r, CR, r.at);
  r.nextLf = findByte(r, LF, r.at);
}

function findByte(r: Reader, byte: number, from: number): number {
  const at = r.bytes.indexOf(byte, from);
  return at < r.length ? at : -1;
}

/** The position of the next CR or LF that ends a line; -1 when the open line goes on. */
function nextLineEnd(r: Reader): number {
  if (r.afterCr && r.at < r.length) {
    r.afterCr = false;
    if (r.bytes[r.at] === LF) {
      r.at++;
      r.line = r.at;
    }
  }
  if (r.nextCr >= 0 && r.nextCr < r.at) r.nextCr = findByte(r, CR, r.at);
  if (r.nextLf >= 0 && r.nextLf < r.at) r.nextLf = findByte(r, LF, r.at);
  const stop = r.nextCr >= 0 && (r.nextLf < 0 || r.nextCr < r.nextLf) ? r.nextCr : r.nextLf;
  if (stop < 0) r.at = r.length;
  return stop;
}

/** Ends the open line at `stop` with the line end there; true when it was blank, which ends the block. */
function endLine(r: Reader, stop: number): boolean {
  const isBlank = !keepLine(r, stop);
  r.at = stop + 1;
  if (r.bytes[stop] === CR) {
    if (r.at === r.length) r.afterCr = true;
    else if (r.bytes[r.at] === LF) r.at++;
  }
  r.line = r.at;
  return isBlank;
}

/** Notes the open line as [start, stop) unless it is blank; a byte order mark at the very start is not part of it. */
function keepLine(r: Reader, stop: number): boolean {
  let start = r.line;
  if (!r.started) {
    r.started = true;
    if (stop - start >= 3 && r.bytes[start] === 0xef && r.bytes[start + 1] === 0xbb && r.bytes[start + 2] === 0xbf) start += 3;
  }
  if (stop === start) return false;
  r.lines.push(start, stop);
  return true;
}

/** The block up to `at`, as a value of its own. */
function takeBlock(r: Reader): SseEvent {
  const raw = Uint8Array.prototype.slice.call(r.bytes, r.block, r.at);
  const event = readBlock(r, raw, null);
  r.block = r.at;
  r.lines.length = 0;
  return event;
}

/** The fields of the open block. With a `problem`, or when it is not UTF-8, the block is broken. */
function readBlock(r: Reader, raw: Uint8Array, problem: Problem | null): SseEvent {
  let name: string | null = null;
  let id: string | null = null;
  let retry: number | null = null;
  let data: string | null = null;
  for (let i = 0; i < r.lines.length; i += 2) {
    const [start, stop] = [r.lines[i] as number, r.lines[i + 1] as number];
    const found = r.bytes.indexOf(COLON, start);
    const colon = found < stop ? found : -1;
    if (colon === start) continue; // a comment
    const nameEnd = colon < 0 ? stop : colon;
    const from = colon < 0 ? stop : colon + (r.bytes[colon + 1] === SPACE && colon + 1 < stop ? 2 : 1);
    const value = r.bytes.toString('utf8', from, stop);
    switch (r.bytes.toString('latin1', start, nameEnd)) {
      case 'data':
        data = data === null ? value : `${data}\n${value}`;
        break;
      case 'event':
        name = value;
        break;
      case 'id':
        if (!value.includes('\0')) id = value;
        break;
      case 'retry':
        if (/^\d{1,15}$/.test(value)) retry = Number(value);
        break;
      default: // unknown fields are ignored, as the standard says; the raw bytes have them
    }
  }
  const wrong = problem ?? (isUtf8(raw) ? null : fail('invalid_utf8', 'an event of the stream is not valid UTF-8').error);
  return { kind: wrong !== null ? 'broken' : data === null ? 'comment' : 'event', name, data: data ?? '', id, retry, raw, problem: wrong };
}

function tooLarge(r: Reader): SseEvent {
  const raw = Uint8Array.prototype.slice.call(r.bytes, r.block, r.length);
  close(r);
  const message = `an event of the stream is larger than ${r.maxEventBytes} bytes, the limit of one event: raise the limit or shorten the event`;
  return { kind: 'broken', name: null, data: '', id: null, retry: null, raw, problem: fail('sse_event_too_large', message).error };
}

function end(r: Reader): SseEvent | null {
  if (r.closed || r.length === r.block) {
    close(r);
    return null;
  }
  keepLine(r, r.length);
  const raw = Uint8Array.prototype.slice.call(r.bytes, r.block, r.length);
  const isEmpty = r.lines.length === 0;
  const problem = isEmpty ? null : fail('sse_truncated', 'the stream ended inside an event: its blank line is missing').error;
  const event = readBlock(r, raw, problem);
  close(r);
  return event;
}

function close(r: Reader): void {
  r.closed = true;
  r.bytes = Buffer.alloc(0);
  r.length = 0;
  r.block = 0;
  r.lines.length = 0;
}
