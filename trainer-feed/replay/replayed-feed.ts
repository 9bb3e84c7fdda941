/**
 * Batches that were cut before, served to a trainer once more, step by step: the same ids, the same rows. Leases and commits are of this replay only; the feed itself
 * never hears of them. A state machine without I/O: the batches are asked for by a port.
 */
import { TapedeckError } from '../../base/errors.ts';
import { planBatch, type PackedRow, type Plan } from '../planner/plan.ts';
import type { PlanRequest } from '../planner/plan-request.ts';

export type ReplayedBatch = {
  readonly n: number;
  readonly batchId: string;
  readonly previousId: string | null;
  readonly timeline: number;
  readonly algorithm: string;
  readonly policyVersion: number | null;
  readonly counts: unknown;
  readonly rows: readonly PackedRow[];
};

export type ReplayedFeedOptions = {
  readonly feed: string;
  /** Steps, both included. */
  readonly from: number;
  readonly to: number;
  readonly batch: (n: number) => Promise<ReplayedBatch>;
};

export type Resumption = {
  readonly timeline: number;
  readonly next: number;
  readonly batchId: string | null;
  readonly rewound: boolean;
  readonly madeUp: false;
};
export type ReplayLease = { readonly batch: ReplayedBatch; readonly plan: Plan; readonly token: number };

export type ReplayedFeed = {
  readonly feed: string;
  readonly from: number;
  readonly to: number;
  /** Last committed step; `from` - 1 at the start. */
  readonly committed: number;
  readonly isOver: boolean;
  timeline(): Promise<number>;
  /** Throws `chain_mismatch` for a checkpoint of other batches, or of steps outside the range. */
  resume(checkpoint: { readonly n: number; readonly batchId: string | null } | null): Promise<Resumption>;
  /** Throws `step_mismatch`, and what planning refuses. */
  lease(step: number, request: PlanRequest): Promise<ReplayLease>;
  /** Throws `out_of_order`, `chain_mismatch`, `lease_lost`. */
  commit(
    n: number,
    batchId: string,
    token: number,
  ): Promise<{ readonly committed: number; readonly batchId: string; readonly timeline: number; readonly repeated: boolean }>;
  release(token: number): void;
  /** Throws `out_of_order` for a step outside the range. */
  checkStep(n: number): void;
};

export function createReplayedFeed({ feed, from, to, batch }: ReplayedFeedOptions): ReplayedFeed {
  if (!(from >= 1 && to >= from)) throw new TapedeckError('usage', `steps ${from} to ${to} are no range: steps count from 1`);
  let committed = from - 1;
  let token = 0;
  let held: number | null = null;

  const idAfter = async (n: number): Promise<string | null> => (n >= from ? (await batch(n)).batchId : (await batch(from)).previousId);
  const outside = (n: number): TapedeckError =>
    new TapedeckError('out_of_order', `this replay of feed ${feed} serves steps ${from} to ${to}, not ${n}`, { details: { n, from, to } });

  return {
    feed,
    from,
    to,
    get committed() {
      return committed;
    },
    get isOver() {
      return committed >= to;
    },
    timeline: async () => (await batch(from)).timeline,
    async resume(checkpoint) {
      const { timeline } = await batch(from);
      if (checkpoint === null || checkpoint.n === 0) {
        const rewound = committed > from - 1;
        committed = from - 1;
        held = null;
        return { timeline, next: from, batchId: await idAfter(committed), rewound, madeUp: false };
      }
      const { n, batchId } = checkpoint;
      if (n < from - 1 || n > to || (batchId !== null && batchId !== (await idAfter(n)))) {
        const message = `batch ${n} of the checkpoint is not batch ${n} of this replay of feed ${feed} (steps ${from} to ${to}); resume without a checkpoint to begin at ${from}`;
        throw new TapedeckError('chain_mismatch', message, { details: { n, from, to } });
      }
      const rewound = n < committed;
      committed = n;
      held = null;
      return { timeline, next: n + 1, batchId: await idAfter(n), rewound, madeUp: false };
    },
    async lease(step, request) {
      if (step !== committed + 1) {
        throw new TapedeckError('step_mismatch', `the next step of this replay is ${committed + 1}, not ${step}`, {
          details: { next: committed + 1 },
        });
      }
      if (step > to) throw outside(step);
      const next = await batch(step);
      const plan = planBatch(next.batchId, next.rows, request);
      if (!plan.ok) throw new TapedeckError(plan.error.code, plan.error.message);
      held = ++token;
      return { batch: next, plan: plan.value, token: held };
    },
    async commit(n, batchId, given) {
      if (n < from || n > to) throw outside(n);
      const { batchId: id, timeline } = await batch(n);
      if (id !== batchId) throw new TapedeckError('chain_mismatch', `batch ${n} is ${id}, not ${batchId}`);
      if (n <= committed) return { committed, batchId, timeline, repeated: true };
      if (n !== committed + 1) throw new TapedeckError('out_of_order', `step ${committed + 1} comes before step ${n}`);
      if (given !== held) throw new TapedeckError('lease_lost', `the token ${given} is not that of the lease`);
      committed = n;
      held = null;
      return { committed, batchId, timeline, repeated: false };
    },
    release(given) {
      if (given !== held) throw new TapedeckError('lease_lost', `the token ${given} is not that of the lease`);
      held = null;
    },
    checkStep(n) {
      if (n < from || n > to) throw outside(n);
    },
  };
}
