/** HTTP to upstreams, kept alive, with back-pressure and deadlines. The one file that knows undici. */
import { Agent, errors as undiciErrors } from 'undici';
import { TapedeckError } from '../../../base/errors.ts';
import type { UpstreamSettings } from './settings.ts';

export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>;

export type UpstreamRequest = {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Uint8Array | null;
  readonly firstByteMs: number;
  readonly idleMs: number;
};

/** Told what comes back, in order: `onHead` once, `onChunk`s, then `onEnd` or `onError`. After `abort` only `onError` follows, with the reason. Never told before `send` has returned. */
export type UpstreamListener = {
  onHead(status: number, headers: UpstreamHeaders): void;
  /** The chunk is the listener's; false asks for a pause until `resume`. */
  onChunk(chunk: Buffer): boolean;
  onEnd(): void;
  /** `upstream_unavailable` (no connection, or it broke), `upstream_timeout`, or the reason given to `abort`. */
  onError(error: Error): void;
};

export type UpstreamExchange = { resume(): void; abort(reason: Error): void };

export type UpstreamHttp = { send(request: UpstreamRequest, listener: UpstreamListener): UpstreamExchange; close(): Promise<void> };

/** Below the five seconds after which many model servers close an idle connection. */
const KEEP_ALIVE_MS = 4_000;

type Controller = { pause(): void; resume(): void; abort(reason: Error): void };

export function createUpstreamHttp(connectMs: number): UpstreamHttp {
  const agent = new Agent({
    connections: null,
    pipelining: 1,
    connect: { timeout: connectMs },
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: 64 * 1024,
  });
  return { send: (request, listener) => send(agent, request, listener), close: () => agent.destroy() };
}

function send(agent: Agent, request: UpstreamRequest, listener: UpstreamListener): UpstreamExchange {
  const url = new URL(request.url);
  let controller: Controller | null = null;
  let aborted: Error | null = null;
  let settled = false;
  let returned = false;
  agent.dispatch(
    {
      origin: url.origin,
      path: url.pathname + url.search,
      method: request.method,
      headers: request.headers,
      body: request.body,
      headersTimeout: request.firstByteMs,
      bodyTimeout: request.idleMs,
    },
    {
      onRequestStart(c: Controller) {
        controller = c;
        if (aborted !== null) c.abort(aborted);
      },
      onResponseStart(_c: unknown, status: number, headers: UpstreamHeaders) {
        if (!settled && status >= 200) listener.onHead(status, headers);
      },
      onResponseData(c: Controller, chunk: Buffer) {
        if (!settled && !listener.onChunk(chunk)) c.pause();
      },
      onResponseEnd() {
        if (settled) return;
        settled = true;
        listener.onEnd();
      },
      onResponseError(_c: unknown, error: Error) {
        if (settled) return;
        settled = true;
        const tell = (): void => listener.onError(aborted ?? named(error, request));
        // what cannot even be tried (a header that is none, an agent that is closed) fails at once
        if (returned) tell();
        else queueMicrotask(tell);
      },
    },
  );
  returned = true;
  return {
    resume: () => controller?.resume(),
    abort: (reason) => {
      if (settled || aborted !== null) return;
      aborted = reason;
      controller?.abort(reason);
    },
  };
}

function named(error: Error, request: UpstreamRequest): TapedeckError {
  if (error instanceof undiciErrors.HeadersTimeoutError) {
    return new TapedeckError('upstream_timeout', `the upstream did not answer within ${request.firstByteMs} ms`, { cause: error });
  }
  if (error instanceof undiciErrors.BodyTimeoutError) {
    return new TapedeckError('upstream_timeout', `the upstream sent nothing for ${request.idleMs} ms`, { cause: error });
  }
  if (error instanceof undiciErrors.ConnectTimeoutError) {
    return new TapedeckError('upstream_unavailable', 'the upstream could not be reached in time', { cause: error });
  }
  const reason = (error as NodeJS.ErrnoException).code ?? error.name;
  return new TapedeckError('upstream_unavailable', `the connection to the upstream failed (${reason})`, {
    cause: error,
    details: { reason },
  });
}

/** The configured limits of one upstream, as a request takes them. */
export function timeoutsOf({ timeouts }: UpstreamSettings): Pick<UpstreamRequest, 'firstByteMs' | 'idleMs'> {
  return { firstByteMs: timeouts.firstByteMs, idleMs: timeouts.idleMs };
}
