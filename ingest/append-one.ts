/** One event of the server's own making, through the same checks as everybody's. */
import { ByteWriter } from '../base/byte-writer.ts';
import type { Clock } from '../base/clock.ts';
import { withDeadline } from '../base/deadline.ts';
import { isTapedeckError, TapedeckError } from '../base/errors.ts';
import type { Random } from '../base/random.ts';
import { retry } from '../base/retry.ts';
import { writeHead } from '../events/codec/cbor-encode.ts';
import { MAJOR } from '../events/codec/cbor-head.ts';
import { acceptEvents, type AcceptContext, type Accepted } from './accept.ts';

export type AppendOnePorts = {
  readonly accept: AcceptContext;
  readonly clock: Clock;
  readonly random: Random;
  readonly onAccepted: (accepted: Accepted, bytes: number) => void;
};

/** An append whose fate is unclear is done again with the same event id: a client that repeats the call would make a second event. */
const APPEND_MS = 10_000;

/** Resolves when the event is durable. Throws the problem of an event that is refused. */
export async function appendOne(slice: Uint8Array, { accept, onAccepted, clock, random }: AppendOnePorts): Promise<void> {
  const body = new ByteWriter(slice.length + 16);
  writeHead(MAJOR.array, 1, body);
  body.bytes(slice);
  const once = async (): Promise<void> => {
    const accepted = await acceptEvents(body.view(), 'cbor', accept);
    if (!accepted.ok) throw new TapedeckError(accepted.error.code, accepted.error.message);
    onAccepted(accepted.value, body.length);
    const problem = accepted.value.failure ?? accepted.value.rejected[0];
    if (problem !== undefined && problem !== null) throw new TapedeckError(problem.code, problem.message);
  };
  await withDeadline(clock, APPEND_MS, 'the log', (signal) =>
    retry(once, {
      clock,
      random,
      signal,
      backoff: { firstMs: 50, maxMs: 1_000 },
      classify: (error) => (isTapedeckError(error) && error.retriable ? 'retry' : 'permanent'),
    }),
  );
}
