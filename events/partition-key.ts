import type { Envelope } from './envelope.ts';

/**
 * The key that decides the log partition: the rollout if the event has one, else the group, else the run, else the event itself.
 * So everything about one rollout is in one partition and in order. Feed events are keyed by their feed.
 */
export function partitionKey(
  event: Pick<Envelope, 'id' | 'rollout' | 'group' | 'run'> & { data?: unknown; type?: string },
  topic: 'events' | 'feeds' = 'events',
): string {
  if (topic === 'feeds') return (event.data as { feed: string }).feed;
  return event.rollout ?? event.group ?? event.run ?? event.id;
}
