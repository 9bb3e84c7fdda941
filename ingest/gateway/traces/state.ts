/**
 * What the gateway knows of a rollout and its traces while it serves them: a function of the rollout's events alone. Live calls and the fold after a restart
 * go through the same functions, so both end in the same state.
 */
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import type { DataOf, TapedeckEvent } from '../../../events/registry.ts';
import { emptyGraph, applyEvent, graphBytes, type TraceGraph } from '../graph/trace-graph.ts';
import type { Printed } from '../calls/printing.ts';
import type { Stopped } from '../calls/stopped.ts';
import type { Draft, Scope } from '../record/draft.ts';
import { callSettingsOf, type CallSettings, type LimitName } from './settings.ts';

/** Where folding of a rollout begins. */
export type Place = { readonly project: string; readonly rollout: string; readonly partition: number; readonly offset: number };

export type RolloutState = {
  readonly scope: Scope & { readonly rollout: string };
  readonly place: Place;
  /** Microseconds. */
  readonly started: number;
  readonly traces: Map<string, TraceState>;
  ended: Ending | null;
  /** How many use it now: only one that nobody holds may leave memory. */
  held: number;
};

export type Ending = { readonly ok: boolean | null; readonly stopCondition: string | null; readonly time: number };

/** Totals over the calls of a trace; what a call did not say counts as 0. */
export type Used = { turns: number; inputTokens: number; outputTokens: number; cost: number };

export type TraceState = {
  readonly rollout: RolloutState;
  readonly scope: Scope & { readonly rollout: string; readonly trace: string };
  readonly settings: CallSettings;
  readonly started: number;
  readonly graph: TraceGraph;
  readonly used: Used;
  /** Calls that are recorded, by index; the next call gets `nextCall`, which also counts those in flight. */
  calls: number;
  nextCall: number;
  /** The limit that was reached first, as a stop condition. */
  stop: string | null;
  ended: Ending | null;
  /** Answers by the id that a later request may name as `previous_response_id`. */
  readonly responses: Map<string, ResponsePlace>;
  /** Plans and appends of one trace run one after another. */
  tail: Promise<unknown>;
  /** Events of which nobody knows whether they are in the log: stored again, with the same ids, before anything else of the trace. */
  pending: { readonly drafts: readonly Draft[]; readonly smaller: () => readonly Draft[]; readonly apply: () => void } | null;
  /** What is known of the texts of earlier requests; empty after a fold. */
  readonly printed: Printed[];
  /** Ends a call that is under way, and says why. */
  readonly inFlight: Set<(reason: Stopped) => void>;
};

/** The node that holds an answer, and how many of the first messages on its path were instructions, which do not carry over. */
export type ResponsePlace = { readonly node: number; readonly instructions: number };

export function newRollout(place: Place, scope: RolloutState['scope'], started: number): RolloutState {
  return { scope, place, started, traces: new Map(), ended: null, held: 0 };
}

export function newTrace(rollout: RolloutState, id: string, settings: CallSettings, started: number): TraceState {
  const trace: TraceState = {
    rollout,
    scope: { ...rollout.scope, trace: id },
    settings,
    started,
    graph: emptyGraph(),
    used: { turns: 0, inputTokens: 0, outputTokens: 0, cost: 0 },
    calls: 0,
    nextCall: 0,
    stop: null,
    ended: null,
    responses: new Map(),
    tail: Promise.resolve(),
    pending: null,
    printed: [],
    inFlight: new Set(),
  };
  rollout.traces.set(id, trace);
  return trace;
}

/** True for the `extra` of events that begin something of the gateway's. */
export function isOurs(extra: Readonly<Record<string, unknown>> | undefined): boolean {
  return typeof extra?.['gateway'] === 'object' && extra['gateway'] !== null;
}

/** Takes what one call leaves behind; `cost` has been worked out already. */
export function noteCall(trace: TraceState, data: DataOf<'call.recorded'>): void {
  trace.calls++;
  trace.nextCall = Math.max(trace.nextCall, data.index + 1);
  const { usage, error } = data;
  trace.used.inputTokens += usage?.promptTokens ?? 0;
  trace.used.outputTokens += usage?.completionTokens ?? 0;
  trace.used.cost += usage?.cost ?? 0;
  if (data.node !== null && data.node !== undefined && (!error || error.type === 'empty_answer')) trace.used.turns++;
  const extra = data.extra ?? {};
  const limit = extra['limit'];
  if (typeof limit === 'string') trace.stop ??= limit;
  const responseId = extra['responseId'];
  if (typeof responseId === 'string' && typeof data.node === 'number') {
    trace.responses.set(responseId, { node: data.node, instructions: Number(extra['instructions'] ?? 0) });
  }
}

/**
 * One event of the log. False when it says nothing to the gateway (or came before, or belongs to a trace that is not the gateway's). `seen` holds the ids of
 * calls that were folded: the log may hold an event twice.
 */
export function foldEvent(rollout: RolloutState, event: TapedeckEvent, seen: Set<string>): boolean {
  switch (event.type) {
    case 'trace.started': {
      if (event.trace === undefined || rollout.traces.has(event.trace) || !isOurs(event.data.extra)) return false;
      newTrace(rollout, event.trace, callSettingsOf(event.data.extra?.['gateway']), event.data.started ?? event.time);
      return true;
    }
    case 'rollout.ended':
      if (rollout.ended !== null) return false;
      rollout.ended = { ok: event.data.ok, stopCondition: event.data.stopCondition ?? null, time: event.time };
      return true;
    case 'rollout.cancelled':
      if (rollout.ended !== null) return false;
      rollout.ended = { ok: false, stopCondition: `cancelled: ${event.data.reason}`, time: event.time };
      return true;
    default: {
      const trace = event.trace === undefined ? undefined : rollout.traces.get(event.trace);
      return trace !== undefined && foldTraceEvent(trace, event, seen);
    }
  }
}

function foldTraceEvent(trace: TraceState, event: TapedeckEvent, seen: Set<string>): boolean {
  switch (event.type) {
    case 'node.appended':
      return applyEvent(trace.graph, event);
    case 'call.recorded':
      if (seen.has(event.id)) return false;
      seen.add(event.id);
      noteCall(trace, event.data);
      return true;
    case 'trace.ended':
      if (trace.ended !== null) return false;
      trace.ended = { ok: event.data.ok, stopCondition: event.data.stopCondition ?? null, time: event.time };
      return true;
    default:
      return false;
  }
}

export function scopeOf(event: TapedeckEvent): Scope {
  const { project, run, group, rollout, trace } = event;
  return { project: project ?? DEFAULT_PROJECT, run: run as string, group, rollout, trace };
}

const STATE_BYTES = 2_048;
const RESPONSE_BYTES = 160;

/** Memory that a rollout holds, estimated. */
export function rolloutBytes(rollout: RolloutState): number {
  let bytes = STATE_BYTES;
  for (const trace of rollout.traces.values()) bytes += STATE_BYTES + graphBytes(trace.graph) + RESPONSE_BYTES * trace.responses.size;
  return bytes;
}

/** What a limit is called where it stops a trace. */
export const STOP_OF: Readonly<Record<LimitName, string>> = {
  turns: 'max_turns',
  inputTokens: 'max_input_tokens',
  outputTokens: 'max_output_tokens',
  totalTokens: 'max_total_tokens',
  wallSeconds: 'max_wall_time',
  cost: 'max_cost',
};
