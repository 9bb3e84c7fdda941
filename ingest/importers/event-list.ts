/** Collects the events and warnings of one record. */
import type { EventType } from '../../events/registry.ts';
import { makeEvent, type ImportedEvent, type Scope } from './event-maker.ts';

/** What could not be mapped as it should; it is kept in `extra`. `field` has no indexes, so that equal warnings count together. */
export type Warning = { readonly field: string; readonly message: string };

export type EventList = {
  readonly events: ImportedEvent[];
  readonly warnings: Warning[];
  /** Adds one event; `place` as in event-maker.ts, `time` in microseconds. */
  add(scope: Scope, type: EventType, place: string, time: number, data: object): void;
  warn(field: string, message: string): void;
};

export function eventList(): EventList {
  const events: ImportedEvent[] = [];
  const warnings: Warning[] = [];
  return {
    events,
    warnings,
    add: (scope, type, place, time, data) => void events.push(makeEvent(scope, type, place, time, data)),
    warn: (field, message) => void warnings.push({ field, message }),
  };
}
