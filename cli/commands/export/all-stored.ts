import { systemClock } from '../../../base/clock.ts';
import { endMissing, tellMissing } from '../../render/missing-line.ts';
import { waitUntilStored } from '../../wait-until-stored.ts';

export const DEFAULT_WAIT_SECONDS = 60;

/** Rollouts that are being stored would be written short, or not at all, without a word. `wait`: seconds without progress until it fails with `not_ready`. */
export async function allStored({ url, wait }: { readonly url: string; readonly wait: number }, signal: AbortSignal): Promise<void> {
  try {
    await waitUntilStored(url, { clock: systemClock, signal, patienceMs: wait * 1000, topic: 'events', onMissing: tellMissing });
  } finally {
    endMissing();
  }
}
