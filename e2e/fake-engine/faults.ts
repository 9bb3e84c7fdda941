/**
 * What can be made to go wrong, per request: in the header `x-fake-fault` (one fault or a list, as JSON), or queued through the API or `POST /fake/faults`,
 * where an entry waits for the next request that matches.
 */
import { z } from 'zod';

const places = { afterTokens: z.int().min(0).default(3) };

export const faultSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('slow_first_token'), ms: z.number().min(0) }),
  /** No bytes for `ms`; without it, none until the client leaves. */
  z.strictObject({ kind: z.literal('stall'), ...places, ms: z.number().min(0).optional() }),
  /** `destroy`: the socket is reset. `end`: the body ends in good order without its terminal event. */
  z.strictObject({ kind: z.literal('cut'), ...places, how: z.enum(['destroy', 'end']).default('destroy') }),
  /** A line that is no JSON in the middle of the stream (or of the body). */
  z.strictObject({ kind: z.literal('malformed'), ...places, text: z.string().default('data: {"id": "oops", "choi\n\n') }),
  /** The engine gives up and says so in the stream, as vLLM does, and then ends it. */
  z.strictObject({ kind: z.literal('error_event'), ...places, message: z.string().default('the engine core died') }),
  z.strictObject({ kind: z.literal('crlf') }),
  /** Every write is cut into pieces of this many bytes, sent one by one: events, lines and characters are split. */
  z.strictObject({ kind: z.literal('split'), bytes: z.int().min(1) }),
  /** One event grows by a field of this many bytes. */
  z.strictObject({ kind: z.literal('long_line'), ...places, bytes: z.int().min(1) }),
  /** Events and fields that no client knows. */
  z.strictObject({ kind: z.literal('unknown_events') }),
  z.strictObject({ kind: z.literal('keep_alive'), everyTokens: z.int().min(1).default(1) }),
  z.strictObject({
    kind: z.literal('status'),
    status: z.int().min(400).max(599),
    message: z.string().default('the engine refuses'),
    retryAfter: z.string().optional(),
    /** The body of a proxy in between instead of the engine's own error shape. */
    html: z.boolean().default(false),
  }),
  /** An answer without any token but the stop token. */
  z.strictObject({ kind: z.literal('empty_answer') }),
  /** 200 and no body at all. */
  z.strictObject({ kind: z.literal('empty_body') }),
  z.strictObject({ kind: z.literal('wrong_usage'), promptTokens: z.int().optional(), completionTokens: z.int().optional() }),
  /** `nan` is what Python's json writes: a bare NaN, which is no JSON. `at`: the place of the bad value. */
  z.strictObject({
    kind: z.literal('logprobs'),
    how: z.enum(['missing', 'short', 'nan', 'null', 'sentinel']),
    at: z.int().min(0).default(0),
  }),
  z.strictObject({ kind: z.literal('token_ids'), which: z.enum(['prompt', 'completion']), how: z.enum(['missing', 'short']) }),
  /** The history's answers are tokenised another way: same text, other ids. */
  z.strictObject({ kind: z.literal('retokenise') }),
  /** New weights while the answer runs; later requests are sampled with them. */
  z.strictObject({ kind: z.literal('policy_update'), ...places, version: z.int().min(0) }),
  /** All connections die and the port is closed for a while. */
  z.strictObject({ kind: z.literal('restart'), ...places, downMs: z.number().min(0).default(200) }),
]);
export type Fault = z.infer<typeof faultSchema>;
export type FaultKind = Fault['kind'];

export const queuedFaultSchema = z.strictObject({
  faults: z.array(faultSchema).min(1),
  /** All given conditions must hold: the exact path, the model, a text anywhere in the body. Without a path only POSTs count, so that a health check takes none. */
  match: z.strictObject({ path: z.string().optional(), model: z.string().optional(), includes: z.string().optional() }).default({}),
  /** For how many matching requests. */
  times: z.int().min(1).default(1),
});
export type QueuedFault = z.input<typeof queuedFaultSchema>;

export type FaultQueue = {
  add(entry: QueuedFault): void;
  clear(): void;
  /** The faults of one request: of its header and of the first queued entry that matches it, which it uses up. Throws a ZodError on a bad header. */
  take(request: {
    readonly method: string;
    readonly header: string | undefined;
    readonly path: string;
    readonly model: string | undefined;
    readonly body: string;
  }): Fault[];
};

export function createFaultQueue(): FaultQueue {
  let entries: { faults: Fault[]; match: z.output<typeof queuedFaultSchema>['match']; times: number }[] = [];
  return {
    add: (entry) => void entries.push(queuedFaultSchema.parse(entry)),
    clear: () => (entries = []),
    take: ({ method, header, path, model, body }) => {
      const own = header === undefined ? [] : z.union([z.array(faultSchema), faultSchema.transform((f) => [f])]).parse(JSON.parse(header));
      const entry = entries.find(
        ({ match }) =>
          (match.path === undefined ? method === 'POST' : match.path === path) &&
          (match.model === undefined || match.model === model) &&
          (match.includes === undefined || body.includes(match.includes)),
      );
      if (entry === undefined) return own;
      entry.times--;
      if (entry.times === 0) entries = entries.filter((e) => e !== entry);
      return [...own, ...entry.faults];
    },
  };
}

export function faultOf<K extends FaultKind>(faults: readonly Fault[], kind: K): Extract<Fault, { kind: K }> | undefined {
  return faults.find((f): f is Extract<Fault, { kind: K }> => f.kind === kind);
}
