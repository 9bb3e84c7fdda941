/** The log in another data folder, written as its own server would: large values go to its blobs. */
import { resolve } from 'node:path';
import { systemClock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { Lifecycle } from '../../../base/lifecycle.ts';
import { systemRandom } from '../../../base/random.ts';
import { acceptEvents } from '../../../ingest/accept.ts';
import { ACCEPT_LIMITS } from '../../../ingest/accept-limits.ts';
import { createProducers } from '../../../ingest/accept-producers.ts';
import { createTombstones } from '../../../ingest/accept-tombstones.ts';
import { withoutProducer } from '../../../query/replay/deliver/cbor-sequence.ts';
import type { Config } from '../../config.ts';
import { openBlobs } from '../../serve/open-blobs.ts';
import { openLog } from '../../serve/open-log.ts';
import type { Target } from './events.ts';

/** Throws `log_locked` while a server writes that log. Events that it holds already are stored beside, and recognised by their ids when it is read. */
export async function openLogTarget(folder: string, config: Config): Promise<Target> {
  if (folder === '') throw new TapedeckError('usage', 'name the data folder: log:<folder>');
  const own: Config = { ...config, data: resolve(folder), log: 'embedded', blobs: 'directory' };
  const life = new Lifecycle();
  try {
    const log = await life.open('log', () => openLog(own, 'events', 'write', systemClock), (l) => l.close()); // prettier-ignore
    const blobs = await life.open('blobs', () => openBlobs(own, systemClock, systemRandom), (b) => b.close()); // prettier-ignore
    const producers = createProducers({ loadProducers: async () => new Map() });
    await producers.load();
    const limits = { ...ACCEPT_LIMITS, valueBytes: own.inlineBytes, eventBytes: own.maxEventBytes };
    const context = { log, blobs, clock: systemClock, tombstones: createTombstones(), producers, limits, onFailure: () => {} };
    return {
      put: async (slices) => {
        const accepted = await acceptEvents(Buffer.concat(slices.map(withoutProducer)), 'cbor', context);
        if (!accepted.ok) throw new TapedeckError(accepted.error.code, accepted.error.message);
        const { failure } = accepted.value;
        if (failure !== null) throw new TapedeckError(failure.code, failure.message);
        return accepted.value;
      },
      close: () => life.close(),
    };
  } catch (error) {
    await life.close();
    throw error;
  }
}
