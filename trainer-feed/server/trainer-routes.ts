/** What a trainer does: lease, commit, release, resume, mark checkpoints, publish weights. */
import { z } from 'zod';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { entityId, policyVersion } from '../../events/fields.ts';
import { awaitFeed, foldOf } from '../feed/await-feed.ts';
import { lastCut, linkOf } from '../feed/decision-state.ts';
import { leaseBatch, commitBatch, markCheckpoint, releaseLease, type Leased } from '../feed/lease.ts';
import { resumeFeed } from '../feed/resume.ts';
import { pendingOf } from '../feed/status.ts';
import { planRequest } from '../planner/plan-request.ts';
import type { FeedEngine } from '../feed/engine.ts';
import { checkpointAnswer, commitAnswer, endAnswer, leaseAnswer, policyAnswer, releaseAnswer, resumeAnswer } from './answers.ts';
import type { FeedService } from './feed-service.ts';
import {
  answerEnd,
  answerPending,
  batchId,
  described,
  feedOf,
  feedParams,
  holder,
  MAX_WAIT_SECONDS,
  NOT_YET,
  parsed,
  projectQuery,
  token,
  type FeedRoutes,
  type Said,
} from './route-parts.ts';

const MAX_TTL_SECONDS = 86_400;
const step = z.int().positive().meta({ description: 'the optimizer step it is for; batch n trains step n' });
const n = z.int().positive().meta({ description: 'number of the batch' });
const query = z.strictObject(projectQuery);

const leaseBody = z.strictObject({
  holder,
  step,
  ...planRequest.shape,
  ttlSeconds: z.number().positive().max(MAX_TTL_SECONDS).default(600).meta({ description: 'how long others are kept away' }),
  token: token.nullable().default(null).meta({ description: 'keeps the lease of this token alive; null = a new lease' }),
  wait: z.number().min(0).max(MAX_WAIT_SECONDS).default(0),
});
const metrics = z
  .record(z.string(), z.unknown())
  .nullable()
  .default(null)
  .meta({ description: 'loss, grad norm …: recorded as trainer.stepped' });
const metricsRun = entityId
  .nullable()
  .default(null)
  .meta({ description: 'run of trainer.stepped; needed where the feed has not exactly one' });
const commitBody = z.strictObject({
  n,
  batchId,
  token,
  step: step.nullable().default(null),
  metrics,
  checkpoint: z
    .strictObject({ uri: z.string().max(4096).nullable().default(null) })
    .nullable()
    .default(null)
    .meta({ description: 'a checkpoint of this step was written too' }),
  run: metricsRun,
});
const releaseBody = z.strictObject({ token, reason: z.string().max(1024).nullable().default(null) });
const checkpointBody = z.strictObject({ n, batchId, uri: z.string().max(4096).nullable().default(null) });
const resumeBody = z.strictObject({
  holder,
  checkpoint: z
    .strictObject({
      timeline: z.int().nonnegative().nullable().default(null),
      n: z.int().nonnegative(),
      batchId: batchId.nullable().default(null),
      metrics: metrics.meta({ description: 'of step n, in case its commit was lost: recorded as trainer.stepped unless they are already' }),
    })
    .nullable()
    .default(null)
    .meta({ description: 'what the checkpoint you loaded holds; null = none' }),
  mode: z
    .enum(['replay', 'recut'])
    .nullable()
    .default(null)
    .meta({ description: 'after a rewind: the same batches again (default), or their groups back into the pool' }),
  restart: z.boolean().default(false).meta({ description: 'begin anew without a checkpoint' }),
  run: metricsRun,
});
const policyBody = z.strictObject({
  version: policyVersion,
  step: z.int().nonnegative().nullable().default(null),
  uri: z.string().max(4096).nullable().default(null),
  trainer: z.string().max(1024).nullable().default(null),
  run: entityId.nullable().default(null),
});

export const trainerRoutes: FeedRoutes = (app, service) => {
  const route = (path: string, summary: string, body: z.ZodType, schema: z.ZodType, more: Readonly<Record<number, Said>> = {}) =>
    [
      `/v1/feeds/:feed/${path}`,
      described({ summary, params: feedParams, querystring: query, body, answers: { 200: { says: summary, schema }, ...more } }),
    ] as const;

  app.post(
    ...route('leases', 'Lease the next batch for a step', leaseBody, z.union([leaseAnswer, endAnswer]), { 202: NOT_YET }),
    async (request, reply) => {
      const { engine, requester, signal } = await feedOf(service, request, reply);
      const { holder: by, step: of, ttlSeconds, token: held, wait, ...plan } = parsed(leaseBody, request.body);
      const leased = await awaitFeed<Leased | 'end'>(
        engine,
        service.clock,
        wait * 1000,
        async (fold) =>
          (await leaseBatch({ holder: by, step: of, ttlSeconds, token: held, plan }, requester)) ??
          (engine.view.ended && of > fold.decisions.chain.length ? 'end' : null),
        signal,
      );
      const fold = foldOf(engine);
      if (leased === 'end') return answerEnd(reply, of, fold.decisions.committed);
      if (leased === null)
        return of <= lastCut(fold.decisions)
          ? answerPending(reply, null, 'the rows of the batch to be made again from the log')
          : answerPending(reply, pendingOf(engine, fold, await endsOf(service), service.clock.nowMicros()), `batch ${of} to be cut`);
      service.reached('feed-leased');
      return leaseSummary(leased, engine);
    },
  );

  app.post(...route('commits', 'Commit a batch after its optimizer step', commitBody, commitAnswer), async (request, reply) => {
    const { engine, requester } = await feedOf(service, request, reply);
    const body = parsed(commitBody, request.body);
    if (body.metrics !== null) runOf(engine, body.run, 'metrics');
    const done = await commitBatch(body, requester);
    service.reached('feed-committed');
    if (body.metrics !== null) await reportStep(service, engine, { ...body, metrics: body.metrics });
    if (body.checkpoint !== null) await markCheckpoint({ n: body.n, batchId: body.batchId, uri: body.checkpoint.uri }, requester);
    return done;
  });

  app.post(...route('release', 'Give a lease back', releaseBody, releaseAnswer), async (request, reply) => {
    const { requester } = await feedOf(service, request, reply);
    const body = parsed(releaseBody, request.body);
    await releaseLease(body, requester);
    return { released: true };
  });

  app.post(...route('checkpoints', 'Mark a checkpoint that can be resumed', checkpointBody, checkpointAnswer), async (request, reply) => {
    const { requester } = await feedOf(service, request, reply);
    const body = parsed(checkpointBody, request.body);
    await markCheckpoint(body, requester);
    return { marked: true };
  });

  app.post(...route('resume', 'Go on from a checkpoint', resumeBody, resumeAnswer), async (request, reply) => {
    const { engine, requester } = await feedOf(service, request, reply);
    const body = parsed(resumeBody, request.body);
    const { n: last = 0, batchId: id = null, metrics: measured = null } = body.checkpoint ?? {};
    if (measured !== null) runOf(engine, body.run, 'metrics');
    const resumed = await resumeFeed(body, requester);
    if (resumed.rewound) service.reached('feed-rewound');
    if (measured !== null && id !== null) {
      await reportStep(service, engine, { n: last, batchId: id, metrics: measured, run: body.run }).catch((error: unknown) => {
        if (!isTapedeckError(error, 'report_conflict')) throw error; // what was told with the commit stands
      });
    }
    return resumed;
  });

  app.post(...route('policy', 'Say that new weights can be sampled from', policyBody, policyAnswer), async (request, reply) => {
    const { engine } = await feedOf(service, request, reply);
    const { run, ...body } = parsed(policyBody, request.body);
    const { timeline } = foldOf(engine).decisions;
    const { feed, project } = engine.origin;
    const report = { type: 'policy.published', project, run: runOf(engine, run, 'a policy'), data: { ...body, timeline } } as const;
    await service.report(report, [feed, timeline, body.version], engine);
    return { version: body.version, timeline };
  });
};

type Step = {
  readonly n: number;
  readonly batchId: string;
  readonly metrics: Readonly<Record<string, unknown>>;
  readonly run: string | null;
};

/** Under the timeline that cut the batch: whenever its step is reported, it is the same step. */
async function reportStep(
  service: FeedService,
  engine: FeedEngine,
  { n: number, batchId: batch, metrics: measured, run }: Step,
): Promise<void> {
  const { decisions } = foldOf(engine);
  const timeline = linkOf(decisions, number)?.timeline ?? decisions.timeline;
  const { feed, project } = engine.origin;
  const data = { step: number, feed, batch, metrics: measured, timeline };
  await service.report({ type: 'trainer.stepped', project, run: runOf(engine, run, 'metrics'), data }, [feed, timeline, number], engine);
}

function runOf(engine: FeedEngine, given: string | null, what: string): string {
  const { runs } = engine.origin.resolved.spec;
  const run = given ?? (runs?.length === 1 ? runs[0] : undefined);
  if (run === undefined)
    throw new TapedeckError(
      'missing_field',
      `run is missing: the feed reads ${runs === null ? 'all runs' : `${runs.length} runs`}, so ${what} must name the run it belongs to`,
    );
  return run;
}

export async function endsOf(service: FeedService): Promise<number[]> {
  return (await service.events.positions()).map(({ end }) => end);
}

function leaseSummary({ lease, plan, timeline }: Leased, engine: FeedEngine) {
  const record = engine.fold?.decisions.batches.get(lease.n);
  const { n: number, batchId: id, holder: by, token: fencing, planId, expires } = lease;
  return {
    n: number, step: number, batchId: id, timeline, holder: by, token: fencing, expires, planId, plan: plan.request,
    microBatches: plan.microBatchesPerRank, paddingTokens: plan.paddingTokens, imbalance: plan.imbalance,
    counts: record?.counts ?? null, policyVersion: record?.policyVersion ?? null, algorithm: record?.algorithm ?? null,
  }; // prettier-ignore
}
