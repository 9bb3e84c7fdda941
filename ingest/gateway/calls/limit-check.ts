/** Whether a trace may make another call. Pure. */
import type { LimitName } from '../traces/settings.ts';
import { STOP_OF, type TraceState } from '../traces/state.ts';

export type Reached = { readonly name: LimitName; readonly stop: string; readonly message: string };

/** The first limit that is reached; calls under way count as turns. `now` in microseconds. */
export function reachedLimit(
  { settings, used, inFlight, started }: Pick<TraceState, 'settings' | 'used' | 'inFlight' | 'started'>,
  now: number,
): Reached | null {
  const { limits } = settings;
  const measured: readonly (readonly [LimitName, number, string])[] = [
    ['turns', used.turns + inFlight.size, 'turns'],
    ['inputTokens', used.inputTokens, 'input tokens'],
    ['outputTokens', used.outputTokens, 'output tokens'],
    ['totalTokens', used.inputTokens + used.outputTokens, 'tokens'],
    ['wallSeconds', (now - started) / 1e6, 'seconds'],
    ['cost', used.cost, 'US dollars'],
  ];
  for (const [name, value, unit] of measured) {
    const limit = limits[name];
    if (limit === undefined || value < limit) continue;
    return { name, stop: STOP_OF[name], message: `this rollout's limit ${name} of ${limit} ${unit} is reached; no further call is made` };
  }
  return null;
}

/** Milliseconds that the trace may still run; null without such a limit. */
export function wallLeftMs({ settings, started }: Pick<TraceState, 'settings' | 'started'>, now: number): number | null {
  const { wallSeconds } = settings.limits;
  return wallSeconds === undefined ? null : Math.max(0, wallSeconds * 1000 - (now - started) / 1000);
}
