import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';

/** Exit code of a command that was stopped by Ctrl-C: 128 + SIGINT. */
export const INTERRUPTED = 130;
/** A terminal and a parent process may each deliver the same Ctrl-C; only a later one is a second wish. */
const AGAIN_MS = 1000;

/** A signal that aborts on the first Ctrl-C, so that the command can end cleanly; a second one, a second later, ends the process. */
export function onInterrupt(clock: Clock): { readonly signal: AbortSignal; readonly done: () => void } {
  const stop = new AbortController();
  let first: number | null = null;
  const handler = (): void => {
    const now = clock.monotonicMs();
    if (first !== null && now - first > AGAIN_MS) process.exit(INTERRUPTED);
    first ??= now;
    stop.abort(new TapedeckError('aborted', 'stopped by Ctrl-C'));
  };
  process.on('SIGINT', handler);
  return { signal: stop.signal, done: () => void process.off('SIGINT', handler) };
}
