/** Waiting for a feed: look, and look again whenever it changed, until there is something or the time is over. */
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { FeedEngine } from './engine.ts';
import type { FeedFold } from './fold.ts';

/** The state of a feed that is running. Throws `not_ready` while it is being opened. */
export function foldOf(engine: FeedEngine): FeedFold {
  const { fold } = engine;
  if (fold === null) {
    throw new TapedeckError('not_ready', `feed ${engine.origin.feed} is being read: ${engine.trouble ?? 'it starts'}; ask again`);
  }
  if (fold.decisions.deleted)
    throw new TapedeckError('feed_deleted', `feed ${engine.origin.feed} was deleted: its log stays, but it serves nothing more`);
  return fold;
}

/** Resolves with the first answer of `look` that is not null, or with null after `waitMs`. A feed that is being opened is waited for too. */
export async function awaitFeed<T>(
  engine: FeedEngine,
  clock: Clock,
  waitMs: number,
  look: (fold: FeedFold) => Promise<T | null> | T | null,
  signal?: AbortSignal,
): Promise<T | null> {
  const end = clock.monotonicMs() + waitMs;
  for (;;) {
    const { version } = engine;
    const left = end - clock.monotonicMs();
    if (engine.fold !== null || left <= 0) {
      const found = await look(foldOf(engine));
      if (found !== null) return found;
    }
    if (left <= 0) return null;
    await engine.waitForChange(version, Math.min(left, 1000), signal);
  }
}
