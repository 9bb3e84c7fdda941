/** The trace that the running code belongs to, carried through awaits, callbacks and timers. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Trace } from './api.ts';

const storage = new AsyncLocalStorage<Trace>();

/** The trace of the innermost `trace.run` around the caller, or undefined. */
export function currentTrace(): Trace | undefined {
  return storage.getStore();
}

export function withTrace<T>(trace: Trace, work: () => T): T {
  return storage.run(trace, work);
}
