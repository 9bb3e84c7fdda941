/**
 * The one place where old shapes are lifted to the current one, at the read edge: `LIFTS[n]` turns an event of version n into version n + 1.
 * Nothing else branches on a version. An event of a version that is not known passes through and `checkEvent` refuses it.
 */
import { EVENTS_VERSION } from './envelope.ts';

type Lift = (event: Record<string, unknown>) => Record<string, unknown>;

/** Empty while there is one version. */
const LIFTS: Readonly<Record<number, Lift>> = {};

/** The event in the shape of EVENTS_VERSION; `lifts` and `target` are given by tests only. */
export function upcast(value: unknown, lifts: Readonly<Record<number, Lift>> = LIFTS, target: number = EVENTS_VERSION): unknown {
  if (typeof value !== 'object' || value === null) return value;
  let event = value as Record<string, unknown>;
  for (let v = event['v']; typeof v === 'number' && v < target; v = event['v']) {
    const lift = Object.hasOwn(lifts, v) ? lifts[v] : undefined;
    if (lift === undefined) return event;
    event = { ...lift(event), v: v + 1 };
  }
  return event;
}
