/** The newest weights that producers can sample from, on the feed's timeline. */
import type { FeedFold } from './fold.ts';

/** null = none was ever published. After a rewind the weights are those of the batch it went back to, until newer ones are published on the new timeline. */
export function policyVersionOf({ decisions, facts }: Pick<FeedFold, 'decisions' | 'facts'>): number | null {
  const published = facts.policies.get(decisions.timeline);
  if (published !== undefined) return published;
  return decisions.rewinds.at(-1)?.to ?? null;
}
