/** What the routes of feeds answer, as Zod schemas: the OpenAPI document and the types of clients come from them. Times are microseconds since 1970 UTC. */
import { z } from 'zod';
import type { Cancellation } from '../feed/cancellations.ts';
import type { Capacity } from '../feed/capacity.ts';
import type { BatchCounts } from '../feed/decision-state.ts';
import type { Committed } from '../feed/lease.ts';
import type { Resumed } from '../feed/resume.ts';
import type { FeedStatus, Pending } from '../feed/status.ts';
import { planRequest } from '../planner/plan-request.ts';
import type { Manifest } from './manifest.ts';

const whole = z.int();
const micros = whole.meta({ description: 'microseconds since 1970 UTC' });
const text = z.string().nullable();
const count = whole.nullable();

const summary = {
  feed: z.string(),
  project: z.string(),
  specHash: z.string(),
  created: micros,
  timeline: count.meta({ description: 'A rewind starts the next one; null while the feed is being opened.' }),
  committed: count.meta({ description: 'Batches that were committed.' }),
  cut: count.meta({ description: 'Batches that were cut.' }),
  deleted: z.boolean(),
  problem: text.meta({ description: 'Why it cannot be served now; null when it can.' }),
};
export const feedAnswer = z
  .object({ ...summary, spec: z.record(z.string(), z.unknown()).meta({ description: 'As created, with its defaults; docs/feed.md.' }) })
  .meta({ title: 'Feed' });
export const feedsAnswer = z.object({ feeds: z.array(z.object(summary)) });
export const deletedAnswer = z.object({ feed: z.string(), deleted: z.literal(true) });

const silentProducer = z.object({ producer: text, run: z.string(), rollouts: whole, lastHeard: micros });
const pending = z
  .object({
    n: whole,
    waitsFor: z.string().meta({ description: 'A sentence: what the batch waits for.' }),
    kind: z.enum(['commit', 'groups', 'catching_up', 'stragglers', 'other_feed', 'end']),
    have: z.number().nullable().meta({ description: 'How much of the size is there; null where that is not the question.' }),
    need: z.number().nullable(),
    unit: z.enum(['rollouts', 'groups', 'tokens']),
    since: micros,
    behind: whole.meta({ description: 'Events of the log that are not read yet.' }),
    silentProducers: z.array(silentProducer),
  })
  .meta({ title: 'Pending' }) satisfies z.ZodType<Pending>;
export const pendingAnswer = z.object({ pending: z.union([pending, z.object({ waitsFor: z.string() })]) });
export const endAnswer = z.object({ end: z.literal(true), n: whole, committed: whole }).meta({ title: 'End' });

const plan = z.looseObject({ world: whole, maxTokens: whole, padToMultiple: whole });
const lease = z.object({
  token: whole,
  holder: z.string(),
  n: whole,
  batchId: z.string(),
  planId: z.string(),
  plan: plan.nullable(),
  since: micros,
  expires: micros,
  event: z.string(),
});
const state = z.enum(['open', 'sealed', 'scoring', 'ready', 'cut', 'failed']);
const oldest = z.object({
  group: z.string(),
  run: z.string(),
  state,
  since: micros,
  waitsFor: z.array(z.string()),
  deadline: micros,
});
export const statusAnswer = z
  .object({
    feed: z.string(),
    project: z.string(),
    timeline: whole,
    committed: whole,
    cut: whole,
    ended: z.boolean(),
    deleted: z.boolean(),
    trouble: text,
    lease: lease.nullable(),
    next: pending.nullable().meta({ description: 'What the next batch waits for.' }),
    depth: z.object({ groups: whole, rollouts: whole, rows: whole, tokens: whole }).meta({ description: 'What lies in the pool.' }),
    groups: z.object({ open: whole, sealed: whole, scoring: whole, ready: whole, cut: whole }),
    oldestWaiting: oldest.nullable(),
    staleness: z.array(z.tuple([z.number(), whole])).meta({ description: 'Staleness in the next batch, and how many groups of the pool would have it.' }),
    frontier: z.object({ positions: z.array(whole), behind: whole, caughtUp: z.boolean(), paused: z.boolean() }),
    policyVersion: count,
    publishLag: count.meta({ description: 'Optimizer steps whose weights were not published yet.' }),
    checkpoints: z.array(z.object({ n: whole, batchId: z.string(), timeline: whole, uri: text, time: micros })),
    rewinds: z.array(z.object({ timeline: whole, to: whole })),
    skippedRollouts: z.object({ work: whole, unlabelled: whole, env: whole }),
    left: z.record(z.string(), z.object({ rollouts: whole, tokens: whole })),
    leftByLength: z.array(whole).meta({ description: 'What was left out: entry i counts lengths from 2^(i-1) up to, not including, 2^i.' }),
    failedGroups: z.record(z.string(), whole),
    silentProducers: z.array(silentProducer),
  })
  .meta({ title: 'FeedStatus' }) satisfies z.ZodType<FeedStatus>; // prettier-ignore

export const capacityAnswer = z
  .object({
    capacity: count.meta({ description: 'Rollouts that may be started now; null: no limit.' }),
    limit: count.meta({ description: '(maxOffPolicySteps + 1) x B; null: no limit.' }),
    rolloutsPerBatch: z.number(),
    queued: z.number(),
    running: whole,
    silent: whole.meta({ description: 'Not counted as running: silent for longer than rolloutExpirySeconds.' }),
    frees: z.array(z.string()).meta({ description: 'What would raise it.' }),
  })
  .meta({ title: 'Capacity' }) satisfies z.ZodType<Capacity>;

/** The `data` of each `cancel` event of the stream. */
export const cancellation = z
  .object({ sequence: whole, run: z.string(), rollout: z.string(), reason: z.string(), time: micros })
  .meta({ title: 'Cancellation' }) satisfies z.ZodType<Cancellation>;

const counts = z
  .looseObject({
    rows: whole,
    rollouts: whole,
    groups: whole,
    tokens: whole,
    longestRow: whole,
    N_rl: whole,
    N_ce: whole,
    N_ref_kl: whole,
    left: z.record(z.string(), z.object({ rows: whole, tokens: whole })),
    leftByLength: z.array(whole),
  })
  .meta({ title: 'BatchCounts' }) satisfies z.ZodType<BatchCounts>;

export const leaseAnswer = z
  .object({
    n: whole,
    step: whole,
    batchId: z.string(),
    timeline: whole,
    holder: z.string(),
    token: whole.meta({ description: 'fencing token' }),
    expires: micros,
    planId: z.string(),
    plan: planRequest,
    microBatches: whole.meta({ description: 'On every rank.' }),
    paddingTokens: whole,
    imbalance: z.number().meta({ description: 'How much more than the mean the dearest rank costs, as a share.' }),
    counts: counts.nullable(),
    policyVersion: count,
    algorithm: text,
  })
  .meta({ title: 'Lease' });
export const commitAnswer = z.object({
  committed: whole,
  batchId: z.string(),
  timeline: whole,
  repeated: z.boolean().meta({ description: 'Whether it was committed before.' }),
}) satisfies z.ZodType<Committed>;
export const releaseAnswer = z.object({ released: z.literal(true) });
export const checkpointAnswer = z.object({ marked: z.literal(true) });
export const resumeAnswer = z.object({
  timeline: whole,
  next: whole,
  batchId: text,
  rewound: z.boolean(),
  madeUp: z.boolean().meta({ description: 'Whether the commit of the checkpoint had been lost and was made up for.' }),
}) satisfies z.ZodType<Resumed>;
export const policyAnswer = z.object({ version: whole, timeline: whole });

const number = z.number().nullable();
const perToken = z.union([z.number(), z.literal('per token')]).nullable();
const row = z.object({
  rowId: z.string(),
  run: text,
  rollout: z.string(),
  trace: z.string(),
  leaf: whole,
  group: z.string(),
  env: z.string(),
  taskKey: text,
  agent: z.string(),
  status: z.string(),
  seqLen: whole,
  advantage: perToken,
  temperature: perToken,
  reward: number,
  policyVersionMin: count,
  policyVersionMax: count,
  staleness: number,
  logOffset: z.tuple([whole, whole]).meta({ description: 'Partition and offset of its last event that counts.' }),
  nodes: z.array(whole),
  multimodal: z.boolean(),
  members: z.object({ rl: whole, ce: whole, refKl: whole }).meta({ description: 'Tokens in each component of the loss.' }),
  hasReference: z.boolean(),
  contentHash: z.string(),
  signalHash: z.string(),
  weights: z.object({ rl: number, ce: number, refKl: number }).meta({ description: 'Sums of the weights; null: the stream is absent.' }),
});
export const manifestAnswer = z
  .object({
    feed: z.string(),
    project: z.string(),
    timeline: whole,
    n: whole,
    batchId: z.string(),
    previousId: text,
    specHash: z.string(),
    algorithm: z.string(),
    policyVersion: count,
    sourcePositions: z.array(z.tuple([whole, whole])),
    cut: micros,
    committed: z.boolean(),
    counts,
    statistics: z.record(z.string(), z.unknown()),
    groups: z.array(z.string()),
    rows: z.array(row),
    excluded: z.array(
      z.object({
        run: text,
        group: z.string(),
        rollout: text,
        trace: text,
        leaf: count,
        reason: z.string(),
        message: text,
        staleness: number,
        length: count,
      }),
    ),
  })
  .meta({ title: 'Manifest' }) satisfies z.ZodType<Manifest>;
