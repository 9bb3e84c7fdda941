/** The feed protocol (docs/feed-protocol.md) over a replayed feed: an unmodified trainer cannot tell it from a live one. */
import type { FastifyInstance, FastifyReply } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { planRequest } from '../planner/plan-request.ts';
import {
  answerEnd,
  batchParams,
  feedParams,
  holder,
  MAX_WAIT_SECONDS,
  parsed,
  projectQuery,
  token,
  wait,
  batchId,
} from '../server/route-parts.ts';
import type { ReplayedFeed } from './replayed-feed.ts';

/** The feed that is replayed with its spec, its slices and manifests, as its own server answers them. */
export type FromSource = {
  readonly feed: (signal: AbortSignal) => Promise<unknown>;
  readonly slice: (n: number, query: URLSearchParams, signal: AbortSignal) => Promise<Response>;
  readonly manifest: (n: number, signal: AbortSignal) => Promise<unknown>;
};
export type ReplayedFeedRoutes = {
  readonly feed: ReplayedFeed;
  readonly source: FromSource;
  readonly nowMicros: () => number;
  readonly onCommit: (n: number, batchId: string) => void;
};

const n = z.int().positive();
const leaseBody = z.strictObject({
  holder,
  step: n,
  ...planRequest.shape,
  ttlSeconds: z.number().positive().max(86_400).default(600),
  token: token.nullable().default(null),
  wait: z.number().min(0).max(MAX_WAIT_SECONDS).default(0),
});
const resumeBody = z.looseObject({
  holder,
  checkpoint: z
    .looseObject({ n: z.int().nonnegative(), batchId: batchId.nullable().default(null) })
    .nullable()
    .default(null),
});
const commitBody = z.looseObject({ n, batchId, token });
const releaseBody = z.looseObject({ token });
const sliceQuery = z.looseObject({ ...projectQuery, wait });
const KEPT = ['etag', 'repr-digest', 'content-type', 'x-feed-n', 'x-feed-timeline', 'x-feed-batch', 'x-feed-plan', 'x-feed-file'];

/** Errors have the shape of the app's error handler. */
export function registerReplayedFeed(app: FastifyInstance, { feed, source, nowMicros, onCommit }: ReplayedFeedRoutes): void {
  const check = (params: unknown): void => {
    const { feed: named } = parsed(feedParams, params);
    if (named !== feed.feed) throw new TapedeckError('not_found', `this is a replay of feed ${feed.feed}; it has no feed ${named}`);
  };
  app.get('/v1/feeds/:feed', async (request, reply) => {
    check(request.params);
    return source.feed(goneSignal(reply));
  });
  app.post('/v1/feeds/:feed/resume', async (request) => {
    check(request.params);
    return feed.resume(parsed(resumeBody, request.body).checkpoint);
  });
  app.post('/v1/feeds/:feed/leases', async (request, reply) => {
    check(request.params);
    const { holder: by, step, ttlSeconds, token: _held, wait: _wait, ...plan } = parsed(leaseBody, request.body);
    if (feed.isOver && step > feed.to) return answerEnd(reply, step, feed.committed);
    const { batch, plan: packed, token: fencing } = await feed.lease(step, plan);
    const { n: number, batchId: id, timeline, counts, policyVersion, algorithm } = batch;
    return {
      n: number, step, batchId: id, timeline, holder: by, token: fencing, expires: nowMicros() + ttlSeconds * 1e6, planId: packed.planId, plan,
      microBatches: packed.microBatchesPerRank, paddingTokens: packed.paddingTokens, imbalance: packed.imbalance, counts, policyVersion, algorithm,
    }; // prettier-ignore
  });
  app.post('/v1/feeds/:feed/commits', async (request) => {
    check(request.params);
    const body = parsed(commitBody, request.body);
    const done = await feed.commit(body.n, body.batchId, body.token);
    if (!done.repeated) onCommit(body.n, body.batchId);
    return done;
  });
  app.post('/v1/feeds/:feed/release', async (request) => {
    check(request.params);
    feed.release(parsed(releaseBody, request.body).token);
    return { released: true };
  });
  // noted nowhere: a replay leaves the feed and its log as they are
  app.post('/v1/feeds/:feed/checkpoints', async (request) => (check(request.params), { marked: true }));
  app.post('/v1/feeds/:feed/policy', async (request) => {
    check(request.params);
    const { version } = parsed(z.looseObject({ version: z.int().nonnegative() }), request.body);
    return { version, timeline: await feed.timeline() };
  });
  app.get(
    '/v1/feeds/:feed/capacity',
    async (request) => (check(request.params), { capacity: 0, limit: 0, queued: 0, running: 0, silent: 0, frees: [] }),
  );
  app.get('/v1/feeds/:feed/status', async (request) => {
    check(request.params);
    return {
      feed: feed.feed,
      replay: { from: feed.from, to: feed.to },
      committed: feed.committed,
      cut: feed.to,
      ended: feed.isOver,
      deleted: false,
    };
  });
  app.get('/v1/feeds/:feed/batches/:n', async (request, reply) =>
    slice(request.query, parsed(batchParams, request.params).n, request.params, reply),
  );
  app.get('/v1/feeds/:feed/batches/:n/manifest', async (request, reply) => {
    check(request.params);
    const { n: at } = parsed(batchParams, request.params);
    feed.checkStep(at);
    return source.manifest(at, goneSignal(reply));
  });

  const slice = async (query: unknown, at: number, params: unknown, reply: FastifyReply): Promise<FastifyReply> => {
    check(params);
    if (at > feed.to) return answerEnd(reply, at, feed.committed);
    feed.checkStep(at);
    const { project: _project, wait: _wait, ...plan } = parsed(sliceQuery, query);
    const answer = await source.slice(
      at,
      new URLSearchParams(Object.entries(plan).map(([key, value]): [string, string] => [key, String(value)])),
      goneSignal(reply),
    );
    for (const name of KEPT) {
      const value = answer.headers.get(name);
      if (value !== null) void reply.header(name, value);
    }
    return reply.code(answer.status).send(Buffer.from(await answer.arrayBuffer()));
  };
}

function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort(new TapedeckError('aborted', 'the client went away'));
  });
  return gone.signal;
}
