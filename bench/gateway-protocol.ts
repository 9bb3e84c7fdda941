/** Messages between bench/gateway.bench.ts and its children. */
export type StreamPlan = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly streams: number;
  /** Calls of each stream, one after another. */
  readonly calls: number;
  readonly tokens: number;
  readonly firstTokenMs: number;
  readonly tokenMs: number;
  /** All begin at once instead of spread over the length of a call. */
  readonly inStep?: boolean;
};

/** Milliseconds. `late`: how long after it was due a piece arrived; `end`: from the last token due to the end of the answer. */
export type StreamReport = {
  readonly pieces: number;
  readonly seconds: number;
  readonly failures: number;
  readonly late: Quantiles;
  readonly first: Quantiles;
  readonly end: Quantiles;
};
export type Quantiles = { readonly p50: number; readonly p99: number; readonly max: number };

export type GatewaySaid =
  { readonly kind: 'listening'; readonly port: number; readonly key: string } | ({ readonly kind: 'usage' } & Usage);
export type Usage = { readonly cpuMicros: number; readonly rssMb: number };
