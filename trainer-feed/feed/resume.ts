/** A trainer comes back with a checkpoint: the feed goes on after it, commits what was trained and not told, or rewinds. */
import { TapedeckError } from '../../base/errors.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { awaitFeed, foldOf } from './await-feed.ts';
import { lastCut, linkOf, type DecisionState } from './decision-state.ts';
import { draftId, type Draft } from './draft.ts';
import { chainMismatch, refuseOtherHolder, type Requester } from './lease.ts';

export type ResumeRequest = {
  readonly holder: string;
  /** What the trainer's checkpoint holds; null = it has none. */
  readonly checkpoint: { readonly timeline: number | null; readonly n: number; readonly batchId: string | null } | null;
  /** Whether batches given up are served again as they were, or their groups go back into the pool; null = replay. */
  readonly mode: 'replay' | 'recut' | null;
  /** Begin anew without a checkpoint. */
  readonly restart: boolean;
};

/** `next`: the step to lease. `committed`: whether a commit that was lost was made up for. */
export type Resumed = {
  readonly timeline: number;
  readonly next: number;
  readonly batchId: string | null;
  readonly rewound: boolean;
  readonly madeUp: boolean;
};

const CUT_AGAIN_MS = 20_000;

/** Errors: `chain_mismatch`, `lease_held`. */
export async function resumeFeed(request: ResumeRequest, from: Requester): Promise<Resumed> {
  const { decisions } = foldOf(from.engine);
  refuseOtherHolder(decisions.lease, request.holder, from.clock);
  const { checkpoint } = request;
  if (checkpoint === null) {
    if (decisions.committed === 0 && lastCut(decisions) === 0) return goOn(decisions, false);
    if (decisions.committed === 0 && !request.restart) return goOn(decisions, false);
    if (!request.restart) throw needsCheckpoint(decisions);
    return rewind(decisions, 0, request, from);
  }
  const { n, batchId } = checkpoint;
  if ((checkpoint.timeline ?? 0) > decisions.timeline) throw chainMismatch(decisions, n, batchId, linkOf(decisions, n));
  if (n === decisions.committed + 1) return makeUp(decisions, n, batchId, from);
  if (n > decisions.committed) throw chainMismatch(decisions, n, batchId, linkOf(decisions, n));
  const found = n === 0 ? null : (linkOf(decisions, n)?.batchId ?? null);
  if (found !== batchId) throw chainMismatch(decisions, n, batchId, linkOf(decisions, n));
  const fresh = request.mode === 'recut' && (lastCut(decisions) > n || decisions.replay.length > 0);
  return n < decisions.committed || fresh ? rewind(decisions, n, request, from) : goOn(decisions, false);
}

function goOn({ timeline, committed, chain }: DecisionState, madeUp: boolean): Resumed {
  return { timeline, next: committed + 1, batchId: chain[committed - 1]?.batchId ?? null, rewound: false, madeUp };
}

function needsCheckpoint({ committed, timeline, checkpoints }: DecisionState): TapedeckError {
  const last = checkpoints.at(-1);
  return new TapedeckError(
    'chain_mismatch',
    `the feed has ${committed} committed batches and you sent no checkpoint: send {n, batchId} of the checkpoint you loaded${last === undefined ? '' : ` (the newest marked one is of batch ${last.n})`}, or restart: true to begin anew`,
    { details: { committed, timeline, checkpoint: last ?? null } },
  );
}

/** The checkpoint is one step ahead: its commit was lost. */
async function makeUp(before: DecisionState, n: number, batchId: string | null, { engine, clock, signal }: Requester): Promise<Resumed> {
  const [again] = before.replay;
  if (lastCut(before) < n && again?.n === n && again.batchId === batchId) {
    await awaitFeed(engine, clock, CUT_AGAIN_MS, ({ decisions }) => (lastCut(decisions) >= n ? true : null), signal); // it is about to be cut again
  }
  const { decisions } = foldOf(engine);
  const link = linkOf(decisions, n);
  if (batchId === null || link?.batchId !== batchId) throw chainMismatch(decisions, n, batchId, link);
  const { feed, timeline } = decisions;
  const holder = decisions.lease?.holder ?? 'resume';
  const draft: Draft = {
    type: 'batch.committed',
    key: [n, batchId, 'resumed'],
    data: { feed, timeline, n, batchId, holder, step: n, resumed: true },
  };
  const verdict = await engine.propose(draft, draftId(decisions.project, draft), signal);
  const after = foldOf(engine).decisions;
  if (!verdict.counts && after.committed < n) throw chainMismatch(after, n, batchId, linkOf(after, n));
  return goOn(after, true);
}

async function rewind(
  before: DecisionState,
  to: number,
  request: ResumeRequest,
  { engine, clock, random, signal }: Requester,
): Promise<Resumed> {
  const { feed, timeline, committed } = before;
  const { facts } = foldOf(engine);
  const draft: Draft = {
    type: 'feed.rewound',
    key: [],
    data: { feed, timeline: timeline + 1, from: committed, to, mode: request.mode ?? 'replay', positions: [...facts.positions] },
  };
  const verdict = await engine.propose(draft, uuidV7(clock, random), signal);
  const after = await awaitFeed(engine, clock, CUT_AGAIN_MS, (fold) => fold.decisions, signal);
  if (after === null || !verdict.counts) {
    throw new TapedeckError('chain_mismatch', `the feed moved on while it was to be rewound: look at GET …/status and resume again`, {
      details: { committed: after?.committed ?? committed, timeline: after?.timeline ?? timeline },
    });
  }
  return { timeline: after.timeline, next: to + 1, batchId: linkOf(after, to)?.batchId ?? null, rewound: true, madeUp: false };
}
