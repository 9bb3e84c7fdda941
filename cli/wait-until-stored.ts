/** Waits until the tables hold everything the log held when the waiting began. */
import type { Clock } from '../base/clock.ts';
import { TapedeckError } from '../base/errors.ts';
import type { Topic } from '../events/registry.ts';
import type { BehindReport } from '../store/columns/audit/behind.ts';
import type { ProjectorState } from '../store/columns/projector/state.ts';
import { requestJson } from './server-request.ts';

export type BehindAnswer = BehindReport & { readonly projector: ProjectorState | null };

export type WaitOptions = {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Gives up when nothing was stored for so long. */
  readonly patienceMs: number;
  /** Only this topic; without it all of them. */
  readonly topic?: Topic;
  /** Told at each look that finds something missing. */
  readonly onMissing?: (events: number) => void;
};

const LOOK_EVERY_MS = 200;

/**
 * Resolves when every event that was in the log at the call is stored, or has its reason why not in `log_index`. Throws `not_ready` with the number of missing events
 * when nothing moves for `patienceMs`, and what the server's answer says otherwise.
 */
export async function waitUntilStored(url: string, options: WaitOptions): Promise<void> {
  const { clock, signal, patienceMs, topic, onMissing } = options;
  const ask = async (): Promise<BehindAnswer> => {
    const answer = await requestJson<BehindAnswer>(url, '/v1/behind', { signal });
    return { ...answer, partitions: answer.partitions.filter((p) => topic === undefined || p.topic === topic) };
  };
  let answer = await ask();
  const ends = answer.partitions.map(({ end }) => end);
  let least = Infinity;
  let movedAt = clock.monotonicMs();
  for (;;) {
    const missing = answer.partitions.reduce((sum, { stored }, i) => sum + Math.max(0, (ends[i] ?? 0) - stored), 0);
    if (missing === 0) return;
    if (missing < least) [least, movedAt] = [missing, clock.monotonicMs()];
    onMissing?.(missing);
    if (clock.monotonicMs() - movedAt >= patienceMs) throw stuck(missing, patienceMs, answer.projector);
    await clock.sleep(LOOK_EVERY_MS, signal);
    answer = await ask();
  }
}

function stuck(missing: number, patienceMs: number, projector: ProjectorState | null): TapedeckError {
  const why = projector?.waitingFor == null ? '' : `: the projector waits for ${projector.waitingFor}`;
  return new TapedeckError(
    'not_ready',
    `${missing} events are accepted and not yet stored, and none was stored for ${patienceMs / 1000} s${why}`,
    {
      details: { missing },
    },
  );
}
