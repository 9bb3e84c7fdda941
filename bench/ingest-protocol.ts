/** What bench/ingest.bench.ts and its two child processes say to each other. */

export type Encoding = 'cbor' | 'json-numbers' | 'json-base64';

export type ServerSaid =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'cpu'; readonly processMicros: number; readonly mainMicros: number }
  | { readonly kind: 'direct'; readonly events: number; readonly seconds: number; readonly processMicros: number };

/** `direct` appends batches straight to a log, `inFlight` at a time, for `seconds`. */
export type ServerAsked =
  { readonly kind: 'cpu' } | { readonly kind: 'direct'; readonly inFlight: number; readonly seconds: number } | { readonly kind: 'end' };

export type LoadPlan = {
  readonly port: number;
  readonly encoding: Encoding;
  readonly connections: number;
  readonly seconds: number;
  /** Events per second, sent when they are due whatever the answers do; null sends as fast as answers come. */
  readonly rate: number | null;
  /** Writer numbers from here on: ids of two plans never meet. */
  readonly writer: number;
};

export type LoadReport = {
  readonly events: number;
  readonly requests: number;
  readonly seconds: number;
  /** Answers other than 200, or with rejected events, by status. */
  readonly failures: Readonly<Record<string, number>>;
  /** Milliseconds from the moment a request was due until its answer: 50th, 99th and highest. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly bytesPerEvent: number;
};
