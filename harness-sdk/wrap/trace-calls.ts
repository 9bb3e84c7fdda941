/** What is remembered of a trace for the sake of its next wrapped call: the graph, and the calls that made it. */
import { internalsOf, observeTraces, type RecordedNode } from '../trace.ts';
import { chatMessage } from './chat.ts';
import { messageKey } from './message-key.ts';
import { addNode, emptyGraph, type GraphNode, type TraceGraph } from './trace-graph.ts';
import type { Trace } from '../api.ts';

export type PastCall = {
  readonly index: number;
  readonly digest: string;
  readonly start: number;
  readonly end: number;
  readonly answers: readonly number[];
  readonly id: string | undefined;
};
export type TraceCalls = {
  readonly graph: TraceGraph;
  /** The tools of the root that is recorded next. */
  nextTools: string | null;
  add(call: PastCall): void;
  /** The last call with this request. */
  lastWith(digest: string): number | undefined;
  /** The call that made a node. */
  callOf(node: number): PastCall | undefined;
  /** The node of the answer with this id (Responses go on from it). */
  answerNode(id: string | undefined): GraphNode | null;
};

const known = new WeakMap<Trace, TraceCalls>();

/** From now on the nodes of every new trace are remembered, also those that the harness records itself: wrapped clients find them again. */
export function rememberTraces(): void {
  observeTraces((trace) => void callsOf(trace));
}

export function callsOf(trace: Trace): TraceCalls {
  const found = known.get(trace);
  if (found !== undefined) return found;
  const made = newCalls();
  known.set(trace, made);
  internalsOf(trace).onNode = (node) => remember(made, node);
  return made;
}

function remember(calls: TraceCalls, { index, parent, message, options }: RecordedNode): void {
  const ids = options.tokens?.ids;
  addNode(calls.graph, {
    index,
    parent,
    role: message.role,
    key: messageKey(chatMessage(message)),
    sampled: options.sampled ?? false,
    ids: ids === undefined ? null : ids instanceof Uint32Array ? ids : Uint32Array.from(ids),
    tools: parent === null ? calls.nextTools : null,
  });
  calls.nextTools = null;
}

function newCalls(): TraceCalls {
  const byDigest = new Map<string, number>();
  const byNode = new Map<number, PastCall>();
  const byId = new Map<string, number>();
  const graph = emptyGraph();
  return {
    graph,
    nextTools: null,
    add: (call) => {
      byDigest.set(call.digest, call.index);
      for (const node of call.answers) byNode.set(node, call);
      if (call.id !== undefined && call.answers[0] !== undefined) byId.set(call.id, call.answers[0]);
    },
    lastWith: (digest) => byDigest.get(digest),
    callOf: (node) => byNode.get(node),
    answerNode: (id) => (id === undefined ? null : (graph.byIndex.get(byId.get(id) ?? -1) ?? null)),
  };
}
