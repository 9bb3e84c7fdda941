/**
 * One answer on its way to a harness. Written straight to the socket's response, so that a stream costs one write per piece; knows when the harness is gone or
 * reads too slowly, and keeps silent streams awake.
 */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../../base/clock.ts';
import { encodeSseComment } from '../sse/sse-encoder.ts';
import { writeChunk } from './write-chunk.ts';

export type HarnessOut = {
  /** Status and headers, once. A stream has no `content-length`. */
  head(status: number, headers: Readonly<Record<string, string | string[]>>): void;
  readonly isStarted: boolean;
  /** The head that was sent; null before. */
  readonly begun: { readonly status: number; readonly headers: Readonly<Record<string, string | string[]>> } | null;
  /** False when the harness reads slower than this: `onDrain` tells when to go on. */
  write(bytes: Uint8Array): boolean;
  end(bytes?: Uint8Array): void;
  /** Breaks the connection behind what was written: the harness sees that the answer is not whole. */
  destroy(): void;
  readonly isGone: boolean;
  /** Headers of a stream that begins by itself when nothing came for long: for answers that are made into a stream only when they are whole. */
  silentHead: Readonly<Record<string, string | string[]>> | null;
  onDrain: () => void;
  /** The harness left before the end, or has read nothing for too long. */
  onGone: (reason: 'disconnected' | 'stalled') => void;
};

/** Streams that are open now: one ticker serves them all. */
export type OpenStreams = { add(stream: Ticking): void; delete(stream: Ticking): void; readonly size: number; close(): Promise<void> };
type Ticking = { tick(nowMs: number): void };

const TICK_MS = 1_000;

export function createOpenStreams(clock: Clock): OpenStreams {
  const streams = new Set<Ticking>();
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await clock.sleep(TICK_MS, stop.signal).catch(() => {});
      const now = clock.monotonicMs();
      for (const stream of streams) stream.tick(now);
    }
  };
  const running = run();
  return {
    add: (stream) => void streams.add(stream),
    delete: (stream) => void streams.delete(stream),
    get size() {
      return streams.size;
    },
    close: async () => {
      stop.abort();
      await running;
    },
  };
}

export type OutOptions = {
  readonly clock: Clock;
  readonly streams: OpenStreams;
  /** A stream that was silent this long gets a comment. */
  readonly keepAliveMs: number;
  /** A harness that takes nothing this long while something waits for it counts as gone. */
  readonly stallMs: number;
};

const KEEP_ALIVE = encodeSseComment('keep-alive');

export function createOut(response: ServerResponse, { clock, streams, keepAliveMs, stallMs }: OutOptions): HarnessOut {
  let isStream = false;
  let isDone = false;
  let lastWriteMs = clock.monotonicMs();
  let fullSinceMs: number | null = null;
  let begun: HarnessOut['begun'] = null;
  const ticking: Ticking = {
    tick(nowMs) {
      if (fullSinceMs !== null) {
        if (nowMs - fullSinceMs >= stallMs) leave('stalled');
      } else if (nowMs - lastWriteMs >= keepAliveMs) {
        if (!response.headersSent && out.silentHead !== null) out.head(200, out.silentHead);
        if (isStream) out.write(KEEP_ALIVE);
      }
    },
  };
  const settle = (): void => {
    isDone = true;
    streams.delete(ticking);
  };
  const leave = (reason: 'disconnected' | 'stalled'): void => {
    if (isDone) return;
    settle();
    out.onGone(reason);
    if (reason === 'stalled') response.destroy();
  };
  const onDrained = (): void => {
    fullSinceMs = null;
    out.onDrain();
  };
  const out: HarnessOut = {
    head(status, headers) {
      isStream = headers['content-length'] === undefined;
      begun = { status, headers };
      response.writeHead(status, headers as Record<string, string>);
      if (isStream) response.flushHeaders();
    },
    get isStarted() {
      return response.headersSent;
    },
    get begun() {
      return begun;
    },
    write(bytes) {
      if (isDone) return true;
      lastWriteMs = clock.monotonicMs();
      if (fullSinceMs !== null) {
        // its end is waited for already
        response.write(bytes);
        return false;
      }
      if (writeChunk(response, bytes, onDrained)) return true;
      fullSinceMs = lastWriteMs;
      return false;
    },
    end(bytes) {
      if (isDone) return;
      settle();
      if (bytes === undefined) response.end();
      else response.end(bytes);
    },
    destroy() {
      settle();
      const { socket } = response;
      if (socket === null || !response.headersSent) return void response.destroy();
      // what was written last says why: it must get there first
      socket.setTimeout(stallMs, () => socket.destroy());
      socket.destroySoon();
    },
    get isGone() {
      return isDone && !response.writableEnded;
    },
    silentHead: null,
    onDrain: () => {},
    onGone: () => {},
  };
  response.on('close', () => leave('disconnected'));
  response.on('error', () => leave('disconnected'));
  streams.add(ticking);
  return out;
}
