import type { Clock } from '../../../base/clock.ts';
import type { EngineSession } from './chdb.ts';
import { quoteText } from './settings.ts';

const REPEAT_MS = 100;

/**
 * Kills the query whose session carries `queryId` as `log_comment`, and again until `settled` says that it has ended: a first kill may come before
 * the engine has registered the query. `control` is a session of its own, for a session runs one statement at a time.
 */
export async function killUntilSettled(control: EngineSession, queryId: string, settled: AbortSignal, clock: Clock): Promise<void> {
  while (!settled.aborted) {
    await control.run(`KILL QUERY WHERE Settings['log_comment'] = ${quoteText(queryId)} ASYNC FORMAT Null`).catch(() => undefined);
    await clock.sleep(REPEAT_MS, settled).catch(() => undefined);
  }
}
