import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';

export type BytesDeadlines = { readonly clock: Clock; readonly idleMs: number; readonly totalMs: number };

/**
 * The body of a request, piece by piece at the reader's pace. Only waiting for the client counts as its silence. Throws `slow_body`, and `truncated_body`
 * when the client goes away. The request is not destroyed, so that an answer can still be sent.
 */
export async function* requestBytes(request: IncomingMessage, { clock, idleMs, totalMs }: BytesDeadlines): AsyncGenerator<Buffer> {
  const pieces = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  const end = clock.monotonicMs() + totalMs;
  let isWaiting = false;
  try {
    for (let length = 0; ;) {
      const ms = Math.min(idleMs, end - clock.monotonicMs());
      if (ms <= 0) throw tooSlow(`took longer than ${totalMs} ms`, length, totalMs);
      isWaiting = true;
      const next = await withDeadline(clock, ms, 'the body', () => pieces.next()).catch((error: unknown) => {
        if (isTapedeckError(error, 'deadline_exceeded'))
          throw ms < idleMs
            ? tooSlow(`took longer than ${totalMs} ms`, length, totalMs)
            : tooSlow(`stood still for ${idleMs} ms`, length, idleMs);
        throw new TapedeckError('truncated_body', `the connection broke after ${length} bytes of the body`, { cause: error });
      });
      isWaiting = false;
      if (next.done === true) return;
      length += next.value.length;
      yield next.value;
    }
  } finally {
    // a read that is still pending would make this wait for ever
    if (!isWaiting) await pieces.return?.();
  }
}

function tooSlow(what: string, length: number, limit: number): TapedeckError {
  return new TapedeckError('slow_body', `the body ${what} (${length} bytes came); send smaller uploads or over a faster connection`, {
    details: { limit },
  });
}
