/** A Responses request that names an earlier answer of its trace: the whole conversation in its place, so that any engine can serve it and the graph is the same. */
import type { Inbound } from './inbound.ts';
import { readPath } from '../traces/read-path.ts';
import type { FoldPorts } from '../traces/fold.ts';
import type { TraceState } from '../traces/state.ts';

const READ_MS = 30_000;

/** An answer that the trace does not know stays as it is asked: the upstream may know it. The instructions of the earlier call do not carry over, as in the API. */
export async function continued(inbound: Inbound, trace: TraceState, ports: FoldPorts): Promise<Inbound> {
  const { ask } = inbound;
  const place = ask.previousResponseId === null ? undefined : trace.responses.get(ask.previousResponseId);
  if (place === undefined) return inbound;
  const before = (await readPath(trace, place.node, ports, AbortSignal.timeout(READ_MS))).slice(place.instructions);
  const own = ask.messages.slice(0, ask.instructions);
  return { ...inbound, ask: { ...ask, messages: [...own, ...before, ...ask.messages.slice(ask.instructions)], previousResponseId: null } };
}
