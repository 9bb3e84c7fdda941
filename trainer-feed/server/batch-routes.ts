/** What ranks read: their slice of a batch, and its manifest. Reading changes nothing and needs no lease; the same slice is the same bytes, however often it is asked for. */
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { foldOf } from '../feed/await-feed.ts';
import { lastCut, type ChainLink, type Lease } from '../feed/decision-state.ts';
import { pendingOf } from '../feed/status.ts';
import { readExtraColumns } from '../planner/batch-columns.ts';
import { planRequest, type PlanRequest } from '../planner/plan-request.ts';
import { endAnswer, manifestAnswer } from './answers.ts';
import type { FeedService } from './feed-service.ts';
import { manifestOf } from './manifest.ts';
import {
  answerEnd,
  answerPending,
  batchParams,
  described,
  feedOf,
  NOT_YET,
  parsed,
  projectQuery,
  wait,
  type FeedRequest,
  type FeedRoutes,
} from './route-parts.ts';
import { endsOf } from './trainer-routes.ts';
import { BatchReader } from './read-batch.ts';

const count = (max: number) => z.coerce.number().int().min(1).max(max);
const sliceQuery = z.strictObject({
  ...projectQuery,
  rank: z.coerce.number().int().min(0).max(4095).meta({ description: 'data-parallel rank' }),
  world: count(4096).meta({ description: 'data-parallel ranks' }),
  maxTokens: count(0x7fff_ffff).optional().meta({ description: 'tokens of one micro-batch; needed unless the batch is leased' }),
  padToMultiple: count(65_536).optional(),
  linear: z.coerce.number().positive().optional().meta({ description: 'cost of one token' }),
  quadratic: z.coerce.number().nonnegative().optional().meta({ description: 'cost of one pair of tokens' }),
  columns: z.string().max(1024).default('').meta({ description: 'extra columns, comma separated' }),
  wait,
});
const manifestQuery = z.strictObject({ ...projectQuery, wait });

const ARROW = 'application/vnd.apache.arrow.stream';

export const batchRoutes: FeedRoutes = (app, service) => {
  const slice = {
    summary: "Read a rank's slice of a batch as an Arrow stream",
    params: batchParams,
    querystring: sliceQuery,
    answers: {
      200: { says: 'The slice, or the end of the feed', schema: endAnswer, forms: { [ARROW]: null } },
      202: NOT_YET,
      304: { says: 'The slice is the one that `If-None-Match` names' },
    },
  };
  app.get('/v1/feeds/:feed/batches/:n', described(slice), async (request, reply) => {
    const asked = await feedOf(service, request, reply);
    const { n } = parsed(batchParams, request.params);
    const query = parsed(sliceQuery, request.query);
    if (query.rank >= query.world)
      throw new TapedeckError('invalid_value', `rank ${query.rank} is not below world ${query.world}: ranks count from 0`);
    const extra = readExtraColumns(query.columns.split(',').map((name) => name.trim()).filter(Boolean)); // prettier-ignore
    if (!extra.ok) throw new TapedeckError(extra.error.code, extra.error.message);
    const reader = new BatchReader(service, asked.engine, n);
    const found = await reader.find(query.wait * 1000, asked.signal);
    if (found === null) return notYet(reply, service, asked, n);
    const plan = planFor(foldOf(asked.engine).decisions.lease, found.link, query);
    const prepared = await reader.prepare(found, plan, extra.value, query.wait * 1000, asked.signal);
    if (prepared === null) return answerPending(reply, null, 'the rows of the batch to be made again from the log');
    const { path, sha256, bytes } = prepared.slices[query.rank] as (typeof prepared.slices)[number];
    const etag = `"${sha256}"`;
    void reply.headers({
      etag,
      'repr-digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`,
      'cache-control': 'private, no-cache',
      'x-feed-n': String(n),
      'x-feed-timeline': String(found.link.timeline),
      'x-feed-batch': found.link.batchId,
      'x-feed-plan': prepared.planId,
      ...(isLocal(request) ? { 'x-feed-file': encodeURI(path) } : {}),
    });
    if (request.headers['if-none-match'] === etag) return reply.code(304).send();
    void reply.type(ARROW).header('content-length', String(bytes));
    if (request.method === 'HEAD') return answerHead(reply);
    return reply
      .serializer((payload) => payload as never)
      .send(await (await service.slices(asked.engine)).read(prepared.slices[query.rank] as never));
  });

  const manifest = {
    summary: 'Read what a batch holds and what it left out',
    params: batchParams,
    querystring: manifestQuery,
    answers: { 200: { says: 'The manifest, or the end of the feed', schema: z.union([manifestAnswer, endAnswer]) }, 202: NOT_YET },
  };
  app.get('/v1/feeds/:feed/batches/:n/manifest', described(manifest), async (request, reply) => {
    const asked = await feedOf(service, request, reply);
    const { n } = parsed(batchParams, request.params);
    const { wait: seconds } = parsed(manifestQuery, request.query);
    const found = await new BatchReader(service, asked.engine, n).find(seconds * 1000, asked.signal);
    if (found === null) return notYet(reply, service, asked, n);
    const { committed } = foldOf(asked.engine).decisions;
    return manifestOf(found.link, committed, {
      origin: asked.engine.origin,
      feeds: service.feeds,
      blobs: service.blobs,
      signal: asked.signal,
    });
  });
};

/** As the GET without its body. Fastify's own HEAD would say that the body has no bytes. */
function answerHead(reply: FastifyReply): FastifyReply {
  void reply.hijack();
  reply.raw.writeHead(200, reply.getHeaders() as OutgoingHttpHeaders).end();
  return reply;
}

/** The batch is not cut: why, or that it never will be, or that it is too far ahead to be asked for. */
async function notYet(reply: FastifyReply, service: FeedService, { engine }: FeedRequest, n: number): Promise<FastifyReply> {
  const fold = foldOf(engine);
  const { committed, cutAhead } = fold.decisions;
  if (engine.view.ended && n > lastCut(fold.decisions)) return answerEnd(reply, n, committed);
  const furthest = committed + 1 + cutAhead;
  if (n > furthest) {
    throw new TapedeckError(
      'out_of_order',
      `batch ${n} is far ahead: the feed has committed ${committed} and cuts ${cutAhead} ahead, so ask for batches up to ${furthest}`,
      {
        details: { n, committed, cutAhead },
      },
    );
  }
  return answerPending(reply, pendingOf(engine, fold, await endsOf(service), service.clock.nowMicros()), `batch ${n} to be cut`);
}

/** The leased plan for a leased batch; else what the request says. Errors: `plan_mismatch`, `missing_field`. */
function planFor(lease: Lease | null, link: ChainLink, query: z.output<typeof sliceQuery>): PlanRequest {
  const pinned = lease === null || lease.plan === null ? null : planRequest.parse(lease.plan);
  const asked = {
    world: query.world,
    maxTokens: query.maxTokens ?? pinned?.maxTokens,
    padToMultiple: query.padToMultiple ?? pinned?.padToMultiple ?? 1,
    cost: { linear: query.linear ?? pinned?.cost.linear, quadratic: query.quadratic ?? pinned?.cost.quadratic },
  };
  if (asked.maxTokens === undefined) {
    throw new TapedeckError(
      'missing_field',
      'maxTokens is missing: nobody has leased the batch, so the request must say how many tokens fit one micro-batch',
      { details: { field: 'maxTokens' } },
    );
  }
  const plan = planRequest.parse(asked);
  if (pinned === null || lease === null || lease.n !== link.n || lease.batchId !== link.batchId) return plan;
  const same = plan.world === pinned.world && plan.maxTokens === pinned.maxTokens && plan.padToMultiple === pinned.padToMultiple;
  if (same && plan.cost.linear === pinned.cost.linear && plan.cost.quadratic === pinned.cost.quadratic) return pinned;
  throw new TapedeckError(
    'plan_mismatch',
    `batch ${link.n} is leased with another plan (world ${pinned.world}, maxTokens ${pinned.maxTokens}, padToMultiple ${pinned.padToMultiple}): all ranks read one plan; ask with it, or let ${lease.holder} lease it anew with yours`,
    { details: { plan: pinned, planId: lease.planId, holder: lease.holder } },
  );
}

/** Whether the client is on this machine, where it may map the file. */
function isLocal(request: FastifyRequest): boolean {
  const address = request.socket.remoteAddress ?? '';
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.');
}
