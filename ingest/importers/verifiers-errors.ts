import type { EventList } from './event-list.ts';
import type { Scope } from './event-maker.ts';
import { compact, sameJson, type Json } from './json-value.ts';
import { errorBack, errorFrom } from './verifiers-parts.ts';

/** Errors of an episode or a trace, oldest first; each becomes an event, whatever it looks like. */
export function addErrors(errors: readonly Json[], level: 'rollout' | 'trace', scope: Scope, time: number, list: EventList): void {
  for (const [index, error] of errors.entries()) {
    const data = errorFrom(error);
    const kept = sameJson(error, errorBack(data)) ? undefined : { verifiers: error };
    list.add(scope, 'error.recorded', `error/${index}`, time, compact({ scope: level, ...data, extra: kept }));
  }
}
