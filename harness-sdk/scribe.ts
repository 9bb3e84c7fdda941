/** Writes one event of a scope into the queue: id, time and number come from here. */
import type { Clock } from '../base/clock.ts';
import type { DataOf, EventType } from '../events/registry.ts';
import type { Delivery } from './delivery/delivery.ts';
import type { GatewayCall } from './gateway-keys.ts';
import { encodeNumbered, type ScopeHead } from './encode-event.ts';

export type Scribe = {
  /** Returns the id of the event. Throws what `Delivery.record` throws. */
  write<T extends EventType>(scope: ScopeHead, type: T, data: DataOf<T>): string;
  /** Microseconds. */
  now(): number;
  newId(): string;
  ready(signal?: AbortSignal): Promise<void>;
  readonly gateway: GatewayCall;
  /** Something that will still record when it has ended: closing waits for it. Must not reject. */
  pending(work: Promise<void>): void;
  /** Something that was not asked for by a call of the program could not be recorded. Never throws. */
  onFailure(error: unknown): void;
};

/** `delivery` is asked for each time: in a process that inherited this one it is another. */
export function scribeOf(
  delivery: () => Delivery,
  ports: { readonly clock: Clock } & Pick<Scribe, 'newId' | 'gateway' | 'pending' | 'onFailure'>,
): Scribe {
  const { clock, newId, gateway, pending, onFailure } = ports;
  return {
    write: (scope, type, data) => {
      const to = delivery();
      const id = newId();
      const time = clock.nowMicros();
      to.record((seq) => encodeNumbered({ producer: to.producer, seq, id, type, time, scope, data }));
      return id;
    },
    now: () => clock.nowMicros(),
    newId,
    ready: (signal) => delivery().ready(signal),
    gateway,
    pending,
    onFailure,
  };
}
