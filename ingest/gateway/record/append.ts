/**
 * Makes drafts durable: all of them or none, through the same checks and limits as `POST /v1/events`. What cannot be stored now is tried again with the same
 * event ids until the deadline, since the fate of an append may be unclear.
 */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { TapedeckError } from '../../../base/errors.ts';
import type { Random } from '../../../base/random.ts';
import { executePlan, planBody, type AcceptContext } from '../../accept.ts';
import type { Plan } from '../../accept-plan.ts';
import { encodeDrafts, type Draft } from './draft.ts';

export type AppendOptions = {
  readonly accept: AcceptContext;
  readonly random: Random;
  /** How long storing may take, with all attempts, milliseconds. */
  readonly durableMs: number;
};

/** Events too large for one record are tried again with ever smaller values moved to the blob store. */
const SMALLER_VALUES = [16 * 1024, 1024];
const FIRST_WAIT_MS = 20;
const LONGEST_WAIT_MS = 1_000;

/**
 * `smaller` are the same events in a form with fewer values, for when the drafts are too large even so. Resolves when all are durable. Throws what refuses them (`event_too_large`, `run_deleted` …; then nothing was stored), or the last failure of the store
 * (`append_unclear` and others; then they may or may not be in the log).
 */
export async function appendDrafts(
  drafts: readonly Draft[],
  { accept, random, durableMs }: AppendOptions,
  smaller: (() => readonly Draft[]) | null = null,
): Promise<void> {
  const plan = (await planned(drafts, accept, smaller !== null)) ?? (await planned((smaller as () => readonly Draft[])(), accept, false));
  if (plan === null) throw new TapedeckError('internal', 'an event was neither planned nor refused');
  const { clock } = accept;
  const end = clock.monotonicMs() + durableMs;
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    const { failure } = await executePlan(plan, accept);
    if (failure === null) return;
    const error = new TapedeckError(failure.code, failure.message);
    if (!error.retriable || clock.monotonicMs() + waitMs > end) throw error;
    await clock.sleep(waitMs * (0.5 + random.next() / 2));
  }
}

/** Null when an event is too large and the caller has another form of it. */
async function planned(drafts: readonly Draft[], accept: AcceptContext, mayFail: boolean): Promise<Plan | null> {
  const writer = new ByteWriter(4096);
  encodeDrafts(drafts, writer);
  for (const valueBytes of [accept.limits.valueBytes, ...SMALLER_VALUES]) {
    const limits = { ...accept.limits, valueBytes: Math.min(valueBytes, accept.limits.valueBytes) };
    const plan = await planBody(writer.view(), 'cbor', { ...accept, limits }, new ByteWriter(0));
    if (!plan.ok) throw new TapedeckError(plan.error.code, plan.error.message);
    const [refused] = plan.value.rejected;
    if (refused === undefined) return plan.value;
    const isLast = valueBytes === SMALLER_VALUES.at(-1);
    if (refused.code !== 'event_too_large' || (isLast && !mayFail)) throw new TapedeckError(refused.code, refused.message);
  }
  return null;
}
