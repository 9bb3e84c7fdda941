/** The messages on the path to a node, read back from the log: the graph in memory holds their prints only. */
import { TapedeckError } from '../../../base/errors.ts';
import type { Message } from '../dialects/dialect.ts';
import { pathTo } from '../graph/trace-graph.ts';
import { eventOf, readHeadOf, type FoldPorts } from './fold.ts';
import type { TraceState } from './state.ts';

const READ_BYTES = 4 * 1024 * 1024;

/** Root first; nodes without a message are left out. Errors: those of the log and of the blob store; `position_out_of_range` when the log no longer holds them all. */
export async function readPath(trace: TraceState, node: number, { log, fetchBlob }: FoldPorts, signal: AbortSignal): Promise<Message[]> {
  const path = pathTo(trace.graph, node);
  const wanted = new Set(path);
  const found = new Map<number, Message | null>();
  const { partition, offset } = trace.rollout.place;
  const end = (await log.positions(signal))[partition]?.end ?? 0;
  for (let at = offset; at < end && found.size < wanted.size;) {
    const chunk = await log.read(partition, at, { maxBytes: READ_BYTES, signal });
    for (const { value } of chunk.records) {
      const head = readHeadOf(value);
      if (head?.type !== 'node.appended' || head.rollout !== trace.scope.rollout || head.project !== trace.scope.project) continue;
      const event = await eventOf(value, head.type, (sha256) => fetchBlob(sha256, signal));
      if (event?.type !== 'node.appended' || event.trace !== trace.scope.trace) continue;
      const { index, message } = event.data;
      if (wanted.has(index) && !found.has(index)) found.set(index, (message ?? null) as Message | null);
    }
    at = chunk.next;
  }
  if (found.size < wanted.size)
    throw new TapedeckError('position_out_of_range', 'the log no longer holds the earlier messages of this trace');
  return path.flatMap((index) => found.get(index) ?? []);
}
