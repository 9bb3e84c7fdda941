/** The requests the engine saw and exactly what it gave: a test compares its own record with this one, bit for bit. Bounded: the oldest go first. */
import type { Clock } from '../../base/clock.ts';
import type { Completion } from './completion.ts';
import type { Fault } from './faults.ts';

export type SeenChoice = Pick<Completion, 'index' | 'ids' | 'logprobs' | 'finishReason' | 'message' | 'policyRuns'>;

/** `outcome`: open while it is answered; complete; refused (a status of 400 and more); cut (by a fault); client_closed (the client left first). */
export type SeenRequest = {
  readonly n: number;
  /** Microseconds since 1970. */
  readonly time: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bodyBytes: number;
  /** As parsed; undefined when it was no JSON. */
  readonly body: unknown;
  readonly faults: readonly Fault[];
  readonly stream: boolean;
  readonly promptIds: Uint32Array | null;
  /** As sampled in full, whatever was sent of it. */
  readonly choices: readonly SeenChoice[];
  readonly status: number | null;
  /** Ids handed to the socket, over all choices. */
  readonly sentTokens: number;
  readonly outcome: 'open' | 'complete' | 'refused' | 'cut' | 'client_closed';
  readonly ended: number | null;
};
export type OpenRequest = { -readonly [K in keyof SeenRequest]: SeenRequest[K] };

export type RequestLog = {
  add(request: Pick<SeenRequest, 'method' | 'path' | 'headers' | 'bodyBytes' | 'body' | 'faults'>): OpenRequest;
  end(request: OpenRequest, outcome: SeenRequest['outcome']): void;
  /** In order of arrival, from number `from` on. */
  list(from?: number): readonly SeenRequest[];
  open(): number;
  clear(): void;
};

export function createRequestLog(clock: Clock, limits: { readonly requests: number; readonly bytes: number }): RequestLog {
  let entries: OpenRequest[] = [];
  let next = 0;
  let bytes = 0;
  return {
    add: (request) => {
      const entry: OpenRequest = {
        ...request,
        n: next++,
        time: clock.nowMicros(),
        stream: false,
        promptIds: null,
        choices: [],
        status: null,
        sentTokens: 0,
        outcome: 'open',
        ended: null,
      };
      entries.push(entry);
      bytes += request.bodyBytes;
      while (entries.length > limits.requests || (bytes > limits.bytes && entries.length > 1))
        bytes -= (entries.shift() as OpenRequest).bodyBytes;
      return entry;
    },
    end: (request, outcome) => {
      if (request.outcome !== 'open') return;
      request.outcome = outcome;
      request.ended = clock.nowMicros();
    },
    list: (from = 0) => entries.filter((e) => e.n >= from),
    open: () => entries.filter((e) => e.outcome === 'open').length,
    clear: () => {
      entries = [];
      bytes = 0;
    },
  };
}
