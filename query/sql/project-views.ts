/**
 * The views of a project are made with its first events, one after the other, before a row of them is stored. A question that comes in between finds its database without the view it reads:
 * whoever asks makes what is missing and asks again, and the answer is that there are no rows yet.
 */
import { isTapedeckError } from '../../base/errors.ts';

/** Makes the views of a project; does nothing where they are there. */
export type EnsureProject = (project: string) => Promise<void>;

const UNKNOWN_TABLE = 60;

/** Whether the engine did not find a table. It may also be one that nobody ever makes. */
export function missesView(error: unknown): boolean {
  return isTapedeckError(error) && error.details['clickhouseCode'] === UNKNOWN_TABLE;
}
