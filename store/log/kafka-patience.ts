import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';

export type Patience = {
  readonly clock: Clock;
  readonly random: Random;
  /** How long one request may take. */
  readonly answerMs: number;
  /** How long brokers may fail before `log_unavailable`. */
  readonly patienceMs: number;
  readonly signal: AbortSignal;
};

const BACKOFF = { firstMs: 50, maxMs: 1000 };
/** What the brokers said, as against that they said nothing. */
const ANSWERS: readonly ErrorCode[] = ['position_out_of_range', 'topic_misconfigured', 'partition_count_changed'];

/** Repeats a request that only asks until it is answered; gives up with `log_unavailable`, or with `aborted`. */
export async function patiently<T>(waitingFor: string, patience: Patience, request: () => Promise<T>): Promise<T> {
  const { clock, random, signal } = patience;
  const giveUpAt = clock.monotonicMs() + patience.patienceMs;
  const isAnswer = (error: unknown): boolean => isTapedeckError(error, ...ANSWERS);
  try {
    return await retry(() => withDeadline(clock, patience.answerMs, waitingFor, request, signal), {
      clock,
      random,
      signal,
      backoff: BACKOFF,
      classify: (error) => (signal.aborted || isAnswer(error) || clock.monotonicMs() > giveUpAt ? 'permanent' : 'retry'),
    });
  } catch (cause) {
    if (isAnswer(cause)) throw cause;
    if (signal.aborted) throw new TapedeckError('aborted', `aborted while waiting for ${waitingFor}`, { cause });
    if (isTapedeckError(cause, 'log_unavailable')) throw cause;
    throw new TapedeckError('log_unavailable', `Kafka does not answer: waited for ${waitingFor}`, { cause });
  }
}
