/** What an error of the column store means for a block: try again, make it smaller, or look for the event that cannot be stored. */
import { isTapedeckError } from '../../../base/errors.ts';

export type StoreVerdict = 'retry' | 'halve' | 'poison' | 'wait';

/** Codes of a store that is busy, starting, or lost its connection: the same block again. */
const RETRIABLE = new Set([3, 107, 159, 164, 202, 203, 209, 210, 242, 252, 285, 319, 394, 425, 999]);
/** The block needs more memory than the store may use. */
const TOO_LARGE = new Set([241, 173]);
/** The data itself is at fault: some event of the block can never be stored as it is. */
const DATA = new Set([
  6, 27, 32, 33, 41, 43, 49, 53, 69, 70, 72, 117, 128, 131, 190, 321, 349, 396, 469, 691,
]); // prettier-ignore

/** Everything that is none of these waits, visibly, for somebody to repair the store: dead-lettering good events for it would be loss. */
export function storeVerdict(error: unknown): StoreVerdict {
  if (!isTapedeckError(error)) return 'wait';
  const code = error.details['clickhouseCode'];
  if (typeof code === 'number') {
    if (TOO_LARGE.has(code)) return 'halve';
    if (DATA.has(code)) return 'poison';
    return RETRIABLE.has(code) ? 'retry' : 'wait';
  }
  return error.retriable ? 'retry' : 'wait';
}
