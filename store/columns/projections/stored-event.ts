import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import type { EventOf, EventType, TapedeckEvent } from '../../../events/registry.ts';
import type { StoredEvent } from './block.ts';
import { storePartition } from './position.ts';

export type StoredOf<T extends EventType> = StoredEvent<EventOf<T>>;

export function positionOf(stored: Pick<StoredEvent, 'topic' | 'partition' | 'offset'>): { _partition: number; _offset: number } {
  return { _partition: storePartition(stored.topic, stored.partition), _offset: stored.offset };
}

/** The ids of the envelope as key columns: absent ids are empty. */
export function keysOf(event: TapedeckEvent): { project: string; run: string; rollout: string; trace: string } {
  return { project: event.project ?? DEFAULT_PROJECT, run: event.run ?? '', rollout: event.rollout ?? '', trace: event.trace ?? '' };
}
