/** Sends an answer, whole or as a stream, at the model's pace and with the faults of the request: the only place that decides bytes and sockets. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Engine } from './engine-state.ts';
import { faultOf, type Fault } from './faults.ts';
import { pythonJson } from './json.ts';
import type { OpenRequest } from './seen.ts';

/** One request on its way through the engine. `gone` aborts when the client leaves or the connection is destroyed. */
export type Call = {
  readonly engine: Engine;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly seen: OpenRequest;
  readonly faults: readonly Fault[];
  readonly gone: AbortSignal;
};

/** One SSE event, `tokens`: how many ids it delivers; `last`: ends the stream for a client that reads it. */
export type Frame = { readonly text: string; readonly tokens: number; readonly last?: boolean };
/** How a dialect says, in a stream, that the engine failed. */
export type StreamError = (message: string) => readonly Frame[];

/** Enough frames at once that streams are cheap, few enough that one does not hold up the others. */
const FRAMES_PER_TURN = 16;

export async function sendJson(call: Call, status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const { response, seen, faults, engine } = call;
  const text = pythonJson(body);
  const tokens = seen.choices.reduce((sum, c) => sum + c.ids.length, 0);
  if (status < 400) {
    await pause(call, (faultOf(faults, 'slow_first_token')?.ms ?? 0) + engine.pace.firstTokenMs + engine.pace.tokenMs * longest(seen));
    const stall = faultOf(faults, 'stall');
    if (stall !== undefined) await pause(call, stall.ms ?? Infinity);
  }
  seen.status = status;
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers });
  if (faultOf(faults, 'restart') !== undefined || faultOf(faults, 'cut') !== undefined) {
    await write(call, text.slice(0, text.length >> 1));
    breakOff(call);
    return;
  }
  if (faultOf(faults, 'malformed') !== undefined) response.end(text.slice(0, -2).padEnd(text.length, '?'));
  else if (faultOf(faults, 'split') !== undefined) await write(call, text).then(() => response.end());
  else response.end(text);
  seen.sentTokens = tokens;
  engine.log.end(seen, status >= 400 ? 'refused' : 'complete');
}

export async function sendStream(
  call: Call,
  frames: Iterable<Frame>,
  onError: StreamError,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { response, seen, faults, engine } = call;
  seen.status = 200;
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache', ...headers });
  response.flushHeaders();
  await pause(call, (faultOf(faults, 'slow_first_token')?.ms ?? 0) + engine.pace.firstTokenMs);
  const began = engine.clock.monotonicMs();
  const due = new Set(faults);
  let count = 0;
  let keepAliveAt = 0;
  for (const frame of frames) {
    const wait = began + engine.pace.tokenMs * (seen.sentTokens / Math.max(1, seen.choices.length)) - engine.clock.monotonicMs();
    if (wait > 0) await pause(call, wait);
    else if (++count % FRAMES_PER_TURN === 0) await nextTurn();
    if (call.gone.aborted) return;
    const keepAlive = faultOf(faults, 'keep_alive');
    if (keepAlive !== undefined && seen.sentTokens >= keepAliveAt) {
      keepAliveAt = seen.sentTokens + keepAlive.everyTokens;
      await write(call, ': keep-alive\n\n');
    }
    const text = await beforeFrame(call, due, frame, onError);
    if (text === null || call.gone.aborted) return;
    await write(call, text);
    seen.sentTokens += frame.tokens;
  }
  response.end();
  engine.log.end(seen, 'complete');
}

/** Plays the faults whose place has come; answers the frame's text, or null when nothing follows. */
async function beforeFrame(call: Call, due: Set<Fault>, frame: Frame, onError: StreamError): Promise<string | null> {
  let text = frame.text;
  for (const fault of due) {
    if (!('afterTokens' in fault) || (call.seen.sentTokens < fault.afterTokens && frame.last !== true)) continue;
    due.delete(fault);
    if (fault.kind === 'stall') await pause(call, fault.ms ?? Infinity);
    else if (fault.kind === 'malformed') await write(call, fault.text);
    else if (fault.kind === 'long_line') text = withField(text, `"x_padding":"${'x'.repeat(fault.bytes)}"`);
    else if (fault.kind === 'error_event') {
      for (const last of onError(fault.message)) await write(call, last.text);
      call.response.end();
      call.engine.log.end(call.seen, 'cut');
      return null;
    } else if (fault.kind === 'cut' && fault.how === 'end') {
      call.response.end();
      call.engine.log.end(call.seen, 'cut');
      return null;
    } else if (fault.kind === 'cut' || fault.kind === 'restart') {
      breakOff(call);
      return null;
    }
  }
  for (const fault of due) {
    if (fault.kind !== 'unknown_events') continue;
    due.delete(fault);
    await write(call, 'event: fake_notice\ndata: {"type":"fake_notice","choices":[],"note":"未知"}\nid: 7\nretry: 10\n\n');
    text = withField(text, '"x_unknown":{"list":[1,null,"é"]}');
  }
  return text;
}

/** What was written so far is on its way before the connection dies, as with a process that is killed. */
function breakOff(call: Call): void {
  const { response, engine, seen, faults } = call;
  engine.log.end(seen, 'cut');
  const restart = faultOf(faults, 'restart');
  if (restart !== undefined) engine.restart(restart.downMs);
  else response.socket?.destroySoon();
  response.destroy();
}

function withField(frame: string, field: string): string {
  return frame.replace('data: {', () => `data: {${field},`);
}

async function write(call: Call, text: string): Promise<void> {
  const { response, faults } = call;
  const bytes = Buffer.from(faultOf(faults, 'crlf') === undefined ? text : text.replaceAll('\n', '\r\n'));
  const split = faultOf(faults, 'split')?.bytes;
  if (split === undefined) return put(call, bytes);
  response.socket?.setNoDelay(true);
  for (let at = 0; at < bytes.length; at += split) {
    await put(call, bytes.subarray(at, at + split));
    await nextTurn();
  }
}

function put({ response, gone }: Call, bytes: Buffer): Promise<void> | undefined {
  if (gone.aborted || response.write(bytes)) return undefined;
  const { promise, resolve } = Promise.withResolvers<void>();
  const settle = (): void => {
    response.off('drain', settle);
    gone.removeEventListener('abort', settle);
    resolve();
  };
  response.once('drain', settle);
  gone.addEventListener('abort', settle, { once: true });
  return promise;
}

async function pause(call: Call, ms: number): Promise<void> {
  if (ms <= 0 || call.gone.aborted) return;
  if (ms === Infinity) {
    await new Promise((resolve) => call.gone.addEventListener('abort', resolve, { once: true }));
    return;
  }
  await call.engine.clock.sleep(ms, call.gone).catch(() => {});
}

function longest(seen: OpenRequest): number {
  return seen.choices.reduce((most, c) => Math.max(most, c.ids.length), 0);
}
