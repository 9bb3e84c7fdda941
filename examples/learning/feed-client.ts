/** What a trainer and a player say to a feed over HTTP (docs/feed-protocol.md), in TypeScript. One rank, one project. */
import { hash } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { ERROR_CODES, TapedeckError, type ErrorCode } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import { readSlice, type ReadMicroBatch } from '../../trainer-feed/planner/read-slice.ts';

const leased = z.object({
  n: z.int(),
  batchId: z.string(),
  token: z.int(),
  counts: z.object({ rows: z.int(), tokens: z.int(), N_rl: z.int() }),
});
export type Leased = z.output<typeof leased>;
const resumed = z.object({ timeline: z.int(), next: z.int(), batchId: z.string().nullable() });
const capacityAnswer = z.object({ capacity: z.int().nullable() });
const status = z.object({ policyVersion: z.int().nullable(), frontier: z.object({ behind: z.int() }) });
export type Checkpoint = {
  readonly timeline: number;
  readonly n: number;
  readonly batchId: string | null;
  /** Of step n, for the case that its commit is lost. */
  readonly metrics?: Readonly<Record<string, number>> | undefined;
};

export type FeedClient = ReturnType<typeof feedClient>;
export type FeedAddress = { readonly url: string; readonly feed: string; readonly run: string; readonly holder: string };
type Deps = { readonly clock: Clock; readonly random: Random; readonly signal: AbortSignal };

/** A request is held by the server for so long, seconds. */
const WAIT_S = 10;
const MAX_TOKENS = 4096;
const LOOK_MS = 20;

/** Every call is sent again while the server is away or not ready, until `signal` aborts; any other refusal is thrown with the server's code and message. */
export function feedClient({ url, feed, run, holder }: FeedAddress, { clock, random, signal }: Deps) {
  const path = (of: string): string => `/v1/feeds/${encodeURIComponent(feed)}${of}`;

  const send = (method: string, to: string, body?: unknown): Promise<Response> =>
    retry(
      async () => {
        const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
        const answer = await fetch(new URL(to, url), { method, signal, ...json });
        if (!answer.ok) throw await refusal(answer);
        return answer;
      },
      { clock, random, signal, backoff: { firstMs: 50, maxMs: 2000 }, classify: (error) => (isPassing(error) ? 'retry' : 'permanent') },
    );
  const json = async <T>(schema: z.ZodType<T>, answer: Response): Promise<T> => schema.parse(await answer.json());

  return {
    create: async (spec: unknown): Promise<void> => void (await send('POST', '/v1/feeds', { feed, spec })),
    /** The step that comes next. */
    resume: async (checkpoint: Checkpoint | null) => json(resumed, await send('POST', path('/resume'), { holder, checkpoint })),
    /** The lease of the next batch; null = the feed has ended. */
    lease: async (step: number): Promise<Leased | null> => {
      for (;;) {
        const answer = await send('POST', path('/leases'), { holder, step, world: 1, maxTokens: MAX_TOKENS, wait: WAIT_S });
        if (answer.headers.has('x-feed-end')) return null;
        if (answer.status === 200) return json(leased, answer);
        await answer.body?.cancel();
      }
    },
    /** The rows of a leased batch, checked against their digest. */
    read: async (n: number): Promise<ReadMicroBatch[]> => {
      const answer = await send('GET', path(`/batches/${n}?rank=0&world=1&wait=${WAIT_S}`));
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const digest = `sha-256=:${hash('sha256', bytes, 'base64')}:`;
      if (answer.headers.get('repr-digest') !== digest)
        throw new TapedeckError('internal', `batch ${n} is not what its digest says: it was damaged on the way`);
      return readSlice(bytes);
    },
    commit: async ({ n, batchId, token }: Leased, metrics: unknown): Promise<void> =>
      void (await send('POST', path('/commits'), { n, batchId, token, step: n, metrics, run })),
    /** New weights can be sampled from. */
    publish: async (version: number): Promise<void> =>
      void (await send('POST', path('/policy'), { version, step: version, trainer: holder, run })),
    /** How many rollouts may be started, once there are at least `atLeast` or after some seconds. */
    capacity: async (atLeast: number): Promise<number> => {
      const answer = await json(capacityAnswer, await send('GET', path(`/capacity?wait=${WAIT_S}&atLeast=${atLeast}`)));
      return answer.capacity ?? Infinity;
    },
    /** Resolves once the feed has read the log to its end: what was acknowledged before counts in its capacity then. */
    caughtUp: async (): Promise<void> => {
      while ((await json(status, await send('GET', path('/status')))).frontier.behind > 0) await clock.sleep(LOOK_MS, signal);
    },
    /** The newest weights that were published, null = none. */
    policyVersion: async (): Promise<number | null> => (await json(status, await send('GET', path('/status')))).policyVersion,
  };
}

/** Passes by itself: the server is away, starts, or has too much to do. */
function isPassing(error: unknown): boolean {
  if (error instanceof TapedeckError) return error.details['passing'] === true;
  return error instanceof TypeError; // what fetch throws when nobody answers
}

async function refusal(answer: Response): Promise<TapedeckError> {
  const text = await answer.text();
  const passing = answer.status === 503 || answer.status === 429;
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    const code = Object.hasOwn(ERROR_CODES, error.code) ? (error.code as ErrorCode) : 'internal';
    return new TapedeckError(code, error.message, { details: { passing, status: answer.status } });
  } catch {
    return new TapedeckError('internal', `the server answered ${answer.status}: ${text.slice(0, 200)}`, { details: { passing } });
  }
}
