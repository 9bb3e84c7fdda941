import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';

/**
 * Answers a request whose body is not read to its end. Closing at once would reset the connection under a client that is still sending, and it would
 * never see the answer: so the text goes out first, and what still comes is thrown away for a bounded time and size before the connection closes.
 */
export function lingeringBody(
  text: string,
  request: IncomingMessage,
  clock: Clock,
  bounds: { readonly ms: number; readonly bytes: number },
): Readable {
  const discard = async function* (): AsyncGenerator<string> {
    yield text;
    await discarded(request, clock, bounds);
  };
  return Readable.from(discard(), { objectMode: false });
}

function discarded(request: IncomingMessage, clock: Clock, bounds: { readonly ms: number; readonly bytes: number }): Promise<void> {
  if (request.complete || request.destroyed) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = new AbortController();
  let left = bounds.bytes;
  const onData = (chunk: Uint8Array): void => {
    left -= chunk.length;
    if (left < 0) finish();
  };
  const finish = (): void => {
    request.off('data', onData).off('end', finish).off('close', finish).off('error', finish);
    request.pause();
    done.abort();
    resolve();
  };
  request.on('data', onData).on('end', finish).on('close', finish).on('error', finish).resume();
  void clock.sleep(bounds.ms, done.signal).then(finish, () => {});
  return promise;
}
