/**
 * What a trainer may do with a batch: lease, renew, commit, release, mark a checkpoint. Each request is checked against the state, appended as a decision and answered when it
 * was read back. Every refusal says what to do instead.
 */
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { encodePlaces, PLACES_TYPE, type ListedPlace } from '../../events/row-list.ts';
import type { Row } from '../cut/row.ts';
import { planBatch } from '../planner/plan.ts';
import type { Plan as PackedPlan } from '../planner/plan.ts';
import type { PlanRequest } from '../planner/plan-request.ts';
import type { Ignored, Verdict } from './apply-decision.ts';
import { foldOf } from './await-feed.ts';
import { linkOf, type ChainLink, type DecisionState, type Lease } from './decision-state.ts';
import { draftId, type Draft } from './draft.ts';
import type { FeedEngine } from './engine.ts';

export type Requester = {
  readonly engine: FeedEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal?: AbortSignal | undefined;
};

export type LeaseRequest = {
  readonly holder: string;
  readonly step: number;
  readonly ttlSeconds: number;
  readonly plan: PlanRequest;
  /** Of a lease that is to be kept alive. */
  readonly token: number | null;
};

/** `token` is the fencing token. */
export type Leased = { readonly lease: Lease; readonly plan: PackedPlan; readonly timeline: number };

/** Leases the next batch, or null while it is not cut or its rows are not at hand. Errors: `step_mismatch`, `lease_held`, `lease_lost`, `row_exceeds_max_tokens`, `invalid_value`. */
export async function leaseBatch(request: LeaseRequest, from: Requester): Promise<Leased | null> {
  const { engine, clock, random, signal } = from;
  const { decisions } = foldOf(engine);
  const n = decisions.committed + 1;
  if (request.step !== n) throw stepMismatch(decisions, request.step);
  refuseOtherHolder(decisions.lease, request.holder, clock);
  const link = linkOf(decisions, n);
  if (link === undefined) return null;
  const rows = await engine.rowsOf(link, signal);
  if (rows === null) return null;
  const plan = planBatch(link.batchId, rows, request.plan);
  if (!plan.ok) throw new TapedeckError(plan.error.code, plan.error.message);
  const renews = renewed(decisions.lease, request, plan.value.planId);
  const assignment =
    renews === null ? await engine.keepList(await encodePlaces(placesOf(plan.value, rows)), PLACES_TYPE, signal) : undefined;
  const draft: Draft = {
    type: 'batch.leased',
    key: [],
    data: {
      feed: decisions.feed,
      timeline: decisions.timeline,
      n,
      batchId: link.batchId,
      holder: request.holder,
      planId: plan.value.planId,
      plan: request.plan,
      assignment,
      step: n,
      expires: clock.nowMicros() + Math.round(request.ttlSeconds * 1_000_000),
      ...(renews === null ? {} : { renews }),
    },
  };
  const verdict = await engine.propose(draft, uuidV7(clock, random), signal);
  const after = foldOf(engine).decisions;
  if (!verdict.counts || after.lease === null) throw leaseRefused(after, request, verdict, clock);
  return { lease: after.lease, plan: plan.value, timeline: after.timeline };
}

/** Where each row lies. */
function placesOf(plan: PackedPlan, rows: readonly Row[]): ListedPlace[] {
  return plan.ranks.flatMap((microBatches, rank) =>
    microBatches.flatMap((one, microBatch) =>
      one.rows.map((row, position) => ({ rowId: (rows[row] as Row).rowId, rank, microBatch, position })),
    ),
  );
}

function stepMismatch({ committed, timeline }: DecisionState, step: number): TapedeckError {
  const n = committed + 1;
  return new TapedeckError(
    'step_mismatch',
    `the feed trains step ${n} next (batch ${committed} is the last committed), not step ${step}: resume from your checkpoint (POST …/resume) so that both agree, then lease step ${n}`,
    { details: { expected: n, step, committed, timeline } },
  );
}

/** Throws `lease_held` while somebody else's lease runs. */
export function refuseOtherHolder(lease: Lease | null, holder: string, clock: Clock): void {
  if (lease === null || lease.holder === holder || lease.expires <= clock.nowMicros()) return;
  const seconds = Math.ceil((lease.expires - clock.nowMicros()) / 1_000_000);
  throw new TapedeckError(
    'lease_held',
    `the feed is leased to ${lease.holder} for ${seconds} s more: one feed has one trainer; wait, let that one release it (POST …/release), or make a feed of your own`,
    { details: { holder: lease.holder, expires: lease.expires, batch: lease.n, retryAfterSeconds: seconds } },
  );
}

/** The token a renewal keeps; null = a new lease. Another plan for the same batch is a new lease: what was read under the old plan is void. */
function renewed(lease: Lease | null, { holder, token }: LeaseRequest, planId: string): number | null {
  if (token === null) return null;
  if (lease === null || lease.token !== token || lease.holder !== holder) throw leaseLost(lease, token);
  return lease.planId === planId ? token : null;
}

function leaseLost(lease: Lease | null, token: number | null): TapedeckError {
  const now = lease === null ? 'nobody holds the feed now' : `${lease.holder} holds it now with token ${lease.token}`;
  return new TapedeckError(
    'lease_lost',
    `token ${token} no longer holds the feed (${now}): what this process trains cannot be committed; stop it, or resume from a checkpoint and lease again`,
    { details: { token, holder: lease?.holder ?? null, current: lease?.token ?? null } },
  );
}

function leaseRefused(state: DecisionState, request: LeaseRequest, verdict: Verdict, clock: Clock): TapedeckError {
  const why: Ignored = verdict.counts ? 'stale_token' : verdict.why;
  if (why === 'lease_held') refuseOtherHolder(state.lease, request.holder, clock);
  if (why === 'stale_token') return leaseLost(state.lease, request.token);
  return stepMismatch(state, request.step);
}

export type CommitRequest = { readonly n: number; readonly batchId: string; readonly token: number; readonly step: number | null };

/** `repeated`: it was committed before. */
export type Committed = { readonly committed: number; readonly batchId: string; readonly timeline: number; readonly repeated: boolean };

/** Commits a batch after its optimizer step. Errors: `out_of_order`, `chain_mismatch`, `step_mismatch`, `lease_lost`. */
export async function commitBatch(request: CommitRequest, { engine, signal }: Requester): Promise<Committed> {
  const { decisions } = foldOf(engine);
  const done = committedBefore(decisions, request);
  if (done !== null) return done;
  const { n, batchId, token } = request;
  if (n > decisions.committed + 1) throw outOfOrder(decisions, n);
  const link = linkOf(decisions, n);
  if (link?.batchId !== batchId) throw chainMismatch(decisions, n, batchId, link);
  if (request.step !== null && request.step !== n) throw stepMismatch(decisions, request.step);
  const { lease } = decisions;
  if (lease === null || lease.token !== token || lease.n !== n) throw leaseLost(lease, token);
  const draft: Draft = {
    type: 'batch.committed',
    key: [n, batchId, token],
    data: { feed: decisions.feed, timeline: decisions.timeline, n, batchId, holder: lease.holder, step: n, token },
  };
  const verdict = await engine.propose(draft, draftId(decisions.project, draft), signal);
  const after = foldOf(engine).decisions;
  if (verdict.counts) return { committed: n, batchId, timeline: after.timeline, repeated: false };
  const meanwhile = committedBefore(after, request);
  if (meanwhile !== null) return meanwhile;
  throw verdict.why === 'stale_token' ? leaseLost(after.lease, token) : chainMismatch(after, n, batchId, linkOf(after, n));
}

function committedBefore(state: DecisionState, { n, batchId }: CommitRequest): Committed | null {
  if (n > state.committed) return null;
  const link = linkOf(state, n);
  if (link?.batchId !== batchId) throw chainMismatch(state, n, batchId, link);
  return { committed: n, batchId, timeline: state.timeline, repeated: true };
}

function outOfOrder({ committed, timeline }: DecisionState, n: number): TapedeckError {
  return new TapedeckError(
    'out_of_order',
    `batch ${n} cannot be committed before batch ${committed + 1}: commit in order, one batch per optimizer step; if your checkpoint is of another history, resume from it (POST …/resume)`,
    { details: { expected: committed + 1, n, committed, timeline } },
  );
}

/** The batch is not the one the live chain has at its number. */
export function chainMismatch(state: DecisionState, n: number, batchId: string | null, link: ChainLink | undefined): TapedeckError {
  const there = n === 0 ? 'the beginning has no batch' : link === undefined ? `batch ${n} is not cut` : `batch ${n} is ${link.batchId}`;
  return new TapedeckError(
    'chain_mismatch',
    `on timeline ${state.timeline} ${there}, not ${batchId ?? 'nothing'}: your checkpoint belongs to a history that was given up; resume from a checkpoint of the live chain (GET …/status lists them), or from the beginning with restart: true`,
    { details: { n, batchId, found: link?.batchId ?? null, committed: state.committed, timeline: state.timeline } },
  );
}

/** Gives the lease back. Without a lease, or with another token, `lease_lost`. */
export async function releaseLease(
  request: { readonly token: number; readonly reason: string | null },
  { engine, signal }: Requester,
): Promise<void> {
  const { decisions } = foldOf(engine);
  const { lease } = decisions;
  if (lease === null || lease.token !== request.token) throw leaseLost(lease, request.token);
  const { feed, timeline } = decisions;
  const draft: Draft = {
    type: 'batch.released',
    key: [lease.token],
    data: { feed, timeline, n: lease.n, batchId: lease.batchId, holder: lease.holder, token: lease.token, reason: request.reason },
  };
  const verdict = await engine.propose(draft, draftId(decisions.project, draft), signal);
  if (!verdict.counts) throw leaseLost(foldOf(engine).decisions.lease, request.token);
}

/** Marks what can be resumed. Errors: `out_of_order` (not committed yet), `chain_mismatch`. */
export async function markCheckpoint(
  request: { readonly n: number; readonly batchId: string; readonly uri: string | null },
  { engine, signal }: Requester,
): Promise<void> {
  const { decisions } = foldOf(engine);
  const { n, batchId, uri } = request;
  if (n > decisions.committed) throw outOfOrder(decisions, n);
  const link = linkOf(decisions, n);
  if (link?.batchId !== batchId) throw chainMismatch(decisions, n, batchId, link);
  const { feed, timeline } = decisions;
  const draft: Draft = { type: 'feed.checkpointed', key: [n, uri ?? ''], data: { feed, timeline, n, batchId, uri } };
  const verdict = await engine.propose(draft, draftId(decisions.project, draft), signal);
  if (!verdict.counts && verdict.why !== 'repeated') throw chainMismatch(foldOf(engine).decisions, n, batchId, link);
}
