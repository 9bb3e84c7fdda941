/**
 * A `fetch` that records calls to model servers into the current trace. What the caller gets, and when, is what it would have got: bodies pass through as they are read, errors and
 * aborts as they come. Recording never throws into it.
 */
import { createHash } from 'node:crypto';
import { TapedeckError } from '../../base/errors.ts';
import type { ErrorInfo } from '../record-types.ts';
import { currentTrace } from '../current-trace.ts';
import { errorInfo } from '../error-info.ts';
import { internalsOf } from '../trace.ts';
import { chat } from './chat.ts';
import { errorOf, isMap, NO_ANSWER, type Answer, type Dialect, type JsonMap } from './dialect.ts';
import { messages } from './messages.ts';
import { recordExchange } from './record-exchange.ts';
import { responses } from './responses.ts';
import { sseReader } from './sse-reader.ts';
import { callsOf, rememberTraces } from './trace-calls.ts';
import { watchResponse, type Watcher } from './watch-response.ts';
import type { Trace } from '../api.ts';

export type RecordingOptions = {
  /** Record into this trace instead of the current one. */
  readonly trace?: Trace | undefined;
};

/** Which API a path belongs to. */
const PATHS: readonly (readonly [RegExp, Dialect])[] = [
  [/\/chat\/completions\/?$/, chat],
  [/\/responses\/?$/, responses],
  [/\/messages\/?$/, messages],
];
/** A body longer than this is not held for the record; the call is recorded without its answer. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
const MAX_ERROR_BYTES = 256 * 1024;

/** Calls that are no POST to one of these APIs, or made outside of a trace, pass by unrecorded. */
export function recordingFetch(base: typeof fetch = fetch, options: RecordingOptions = {}): typeof fetch {
  rememberTraces();
  return async (input, init) => {
    const trace = options.trace ?? currentTrace();
    const begun = trace === undefined ? null : await begin(trace, input, init);
    if (trace === undefined || begun === null) return await base(input, init);
    // an abort while waiting is for the request itself to report
    await trace.ready(init?.signal ?? undefined).catch(() => {});
    const open = openCall(trace, begun);
    let response: Response;
    try {
      response = await base(input, init);
    } catch (error) {
      open.finish(NO_ANSWER, errorInfo(error), true);
      throw error;
    }
    if (!response.ok) {
      // of a copy: a client that will try again does not read what was wrong
      void errorBody(response.clone()).then((text) => open.finish(NO_ANSWER, errorOf(parsed(text), response.status), false));
      return response;
    }
    return watchResponse(response, watcherOf(open, begun, response));
  };
}

/** The beginning of the body, as far as it comes. */
async function errorBody(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_ERROR_BYTES) break;
    }
  } catch {
    // the connection broke: what came is all there is
  }
  return Buffer.concat(chunks).toString('utf8');
}

type Begun = {
  readonly dialect: Dialect;
  readonly body: JsonMap;
  readonly endpoint: string;
  readonly digest: string;
  readonly isRetry: boolean;
};

/** Null when there is nothing to record. */
async function begin(trace: Trace, input: Parameters<typeof fetch>[0], init: Parameters<typeof fetch>[1]): Promise<Begun | null> {
  try {
    const url = new URL(input instanceof Request ? input.url : input);
    const dialect = PATHS.find(([path]) => path.test(url.pathname))?.[1];
    const method = init?.method ?? (input instanceof Request ? input.method : 'GET');
    if (dialect === undefined || method.toUpperCase() !== 'POST') return null;
    const text = input instanceof Request && init?.body === undefined ? await input.clone().text() : bodyText(init?.body);
    if (text === null)
      throw new TapedeckError('wrong_type', 'the body of a call to a model server is neither text nor bytes: it passed by unrecorded');
    const body: unknown = JSON.parse(text);
    if (!isMap(body)) return null;
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    const isRetry = Number(headers.get('x-stainless-retry-count') ?? 0) > 0;
    return { dialect, body, endpoint: url.pathname, digest: createHash('sha256').update(text).digest('hex'), isRetry };
  } catch (error) {
    internalsOf(trace).scribe.onFailure(error);
    return null;
  }
}

function bodyText(body: unknown): string | null {
  if (typeof body === 'string') return body;
  return body instanceof Uint8Array ? new TextDecoder().decode(body) : null;
}

type OpenCall = {
  /** Something of the answer itself came. */
  onContent(): void;
  /** Records it. The first end counts. */
  finish(answer: Answer, error: ErrorInfo | undefined, isPartial: boolean): void;
  /** Called when the trace ends first. */
  onTraceEnd(end: () => void): void;
};

function openCall(trace: Trace, { dialect, body, endpoint, digest, isRetry }: Begun): OpenCall {
  const { scribe, onEnd } = internalsOf(trace);
  const start = scribe.now();
  let firstToken: number | undefined;
  let isOpen = true;
  let atEnd = (): void => {};
  const endHere = (): void => atEnd();
  onEnd.add(endHere);
  return {
    onContent: () => {
      firstToken ??= scribe.now();
    },
    finish: (answer, error, isPartial) => {
      if (!isOpen) return;
      isOpen = false;
      onEnd.delete(endHere);
      try {
        const exchange = {
          dialect,
          ask: dialect.ask(body),
          endpoint,
          digest,
          isRetry,
          answer,
          isPartial,
          error,
          start,
          firstToken,
          end: scribe.now(),
        };
        recordExchange(trace, callsOf(trace), exchange);
      } catch (failure) {
        scribe.onFailure(failure);
      }
    },
    onTraceEnd: (end) => {
      atEnd = end;
    },
  };
}

const CANCELLED: ErrorInfo = { type: 'cancelled', message: 'the harness did not read the answer to its end' };
const UNFINISHED: ErrorInfo = { type: 'unfinished', message: 'the trace ended before the answer was read' };

function watcherOf(open: OpenCall, begun: Begun, response: Response): Watcher {
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const watcher = isStream ? streamWatcher(open, begun) : bodyWatcher(open, begun, response);
  open.onTraceEnd(() => watcher.stop(UNFINISHED));
  return {
    bytes: (chunk) => watcher.bytes(chunk),
    end: () => watcher.end(),
    fail: (error) => watcher.stop(errorInfo(error)),
    cancel: () => watcher.stop(CANCELLED),
  };
}

/** `stop`: the answer is over before its end. */
type Watching = { bytes(chunk: Uint8Array): void; end(): void; stop(error: ErrorInfo): void };

function streamWatcher(open: OpenCall, { dialect }: Begun): Watching {
  const reader = sseReader();
  const fold = dialect.fold();
  let isComplete = false;
  return {
    bytes: (chunk) => {
      for (const data of reader.add(chunk)) {
        const { hasContent, isLast } = fold.add(parsed(data));
        if (hasContent) open.onContent();
        if (isLast) {
          isComplete = true;
          // recorded before the caller sees the end, so that its next call finds these nodes
          const answer = fold.answer();
          open.finish(answer, undefined, answer.error !== undefined);
        }
      }
    },
    end: () => {
      const answer = fold.answer();
      const isWhole =
        isComplete ||
        (answer.error === undefined && answer.choices.length > 0 && answer.choices.every(({ finishReason }) => finishReason !== undefined));
      const error: ErrorInfo | undefined = isWhole
        ? undefined
        : (answer.error ?? { type: 'incomplete_stream', message: 'the stream ended without its last event' });
      open.finish(answer, error, !isWhole);
    },
    stop: (error) => open.finish(fold.answer(), error, true),
  };
}

function bodyWatcher(open: OpenCall, { dialect }: Begun, response: Response): Watching {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  return {
    bytes: (chunk) => {
      bytes += chunk.length;
      if (bytes <= MAX_BODY_BYTES) chunks.push(chunk.slice());
      open.onContent();
    },
    end: () => {
      if (bytes > MAX_BODY_BYTES)
        return open.finish(NO_ANSWER, { type: 'answer_too_large', message: `the answer has ${bytes} bytes` }, true);
      const body = parsed(Buffer.concat(chunks).toString('utf8'));
      if (!isMap(body))
        return open.finish(
          NO_ANSWER,
          { type: 'malformed_answer', message: 'the answer is no JSON object', statusCode: response.status },
          false,
        );
      open.finish(dialect.answer(body), undefined, false);
    },
    stop: (error) => open.finish(NO_ANSWER, error, true),
  };
}

function parsed(text: string): unknown {
  if (text === '[DONE]') return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
