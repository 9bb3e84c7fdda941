/** The events of a living recorder, as its sender sees them: the oldest from disk where they are no longer in memory, the others from memory. */
import type { MemoryWindow } from './memory-window.ts';
import type { Batch, BatchLimits, Source } from './sender.ts';
import type { Spool } from './spool.ts';

/** `settled`: every number below has its final answer. acked + rejected = settled, `duplicates` of those acked. */
export type LiveQueue = { readonly window: MemoryWindow; settled: number; acked: number; duplicates: number; rejected: number };

export function liveSource(queue: LiveQueue, spool: Spool | null, onSettled: () => void): Source {
  const { window } = queue;
  return {
    settled: () => queue.settled,
    end: () => window.end,
    waitingBytes: () => window.bytes,
    next: async (limits) => {
      if (queue.settled >= window.start) return { events: fromMemory(queue, limits), lost: 0 };
      return await fromDisk(queue, spool as Spool, limits);
    },
    settle: (to, { acked, duplicates, rejected }) => {
      queue.settled = to;
      queue.acked += acked;
      queue.duplicates += duplicates;
      queue.rejected += rejected;
      window.dropBefore(to);
      spool?.settle(to);
      onSettled();
    },
  };
}

function fromMemory({ window, settled }: LiveQueue, limits: BatchLimits): Uint8Array[] {
  const events: Uint8Array[] = [];
  for (let seq = settled, bytes = 0; seq < window.end && events.length < limits.events; seq++) {
    const event = window.at(seq);
    bytes += event.length;
    if (events.length > 0 && bytes > limits.bytes) break;
    events.push(event);
  }
  return events;
}

/** What is neither on disk nor in memory is lost: the file was damaged or taken away. */
async function fromDisk(queue: LiveQueue, spool: Spool, limits: BatchLimits): Promise<Batch> {
  const { settled } = queue;
  const until = queue.window.start;
  const { events, lost } = await spool.read(settled, limits);
  if (events.length > 0) return { events, lost: 0 };
  return { events: [], lost: lost === 0 ? until - settled : Math.min(lost, until - settled) };
}
