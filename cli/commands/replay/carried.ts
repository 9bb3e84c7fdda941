/** An action of a command whose failures are told as the server tells them. */
import { isTapedeckError } from '../../../base/errors.ts';
import { systemClock } from '../../../base/clock.ts';
import { terminalOf, tolerateClosedPipe } from '../../render/output.ts';
import { renderError } from '../../render/server-error.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';

/** `work` answers the exit code. Ctrl-C aborts the signal; a command that throws because of it ends with 130. */
export async function carried(work: (signal: AbortSignal) => Promise<number>): Promise<void> {
  tolerateClosedPipe(process.stdout);
  const stop = onInterrupt(systemClock);
  try {
    process.exitCode = await work(stop.signal);
  } catch (error) {
    if (stop.signal.aborted) process.exitCode = INTERRUPTED;
    else if (isTapedeckError(error)) {
      for (const line of renderError(error, terminalOf(process.stderr).paint)) process.stderr.write(`${line}\n`);
      process.exitCode = error.code === 'usage' ? 2 : 1;
    } else throw error;
  } finally {
    stop.done();
  }
}
