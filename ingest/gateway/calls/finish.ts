/**
 * The end of a call: its nodes are planned, its events made durable, and only then does the trace's graph change. One call of a trace at a time; what an
 * earlier call could not store for certain is stored first, with the same event ids.
 */
import { isTapedeckError, type ErrorCode } from '../../../base/errors.ts';
import type { Clock } from '../../../base/clock.ts';
import type { Random } from '../../../base/random.ts';
import { uuidV7 } from '../../../base/uuid.ts';
import { ByteWriter } from '../../../base/byte-writer.ts';
import { cborToJson, toJson } from '../../../events/codec/cbor-to-json.ts';
import type { Exchange, ExchangePlan } from '../graph/exchange.ts';
import { nodeEvents } from '../graph/node-events.ts';
import { planExchange } from '../graph/plan-exchange.ts';
import { applyNodes } from '../graph/trace-graph.ts';
import type { PolicyVersions } from '../policy-versions.ts';
import { appendDrafts, type AppendOptions } from '../record/append.ts';
import { Encoded, type Draft } from '../record/draft.ts';
import { noteCall, type TraceState } from '../traces/state.ts';
import { callData } from './call-data.ts';
import type { Call, Sent } from './call.ts';
import { choicesOf, type Outcome } from './outcome.ts';
import type { Printing } from './printing.ts';

export type FinishPorts = {
  readonly append: AppendOptions;
  readonly clock: Clock;
  readonly random: Random;
  readonly policies: PolicyVersions;
  readonly onFault: (error: unknown) => void;
};

export type Finished = {
  readonly call: Call;
  readonly sent: Sent | null;
  readonly outcome: Outcome;
  readonly limit?: string;
  readonly responseId: string | null;
};

/** Resolves when the call is durable. Throws why it is not; then nobody may be told that it succeeded. */
export async function finishCall(finished: Finished, ports: FinishPorts): Promise<void> {
  const { trace } = finished.call;
  return inTurn(trace, async () => {
    await storePending(trace, ports);
    trace.pending = plan(finished, ports);
    await storePending(trace, ports);
  });
}

/** Runs `work` when all earlier work on the trace has settled. */
export function inTurn<T>(trace: TraceState, work: () => Promise<T>): Promise<T> {
  const turn = trace.tail.then(work, work);
  trace.tail = turn.catch(() => {});
  return turn;
}

/** After these nothing was stored, and nothing ever will be: the events themselves are refused. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['event_too_large', 'run_deleted', 'invalid_event', 'number_out_of_range', 'too_deep']);

/** Stores what is not certain to be stored. On failure it stays pending, except when it was refused for good. */
export async function storePending(trace: TraceState, ports: Pick<FinishPorts, 'append'>): Promise<void> {
  const { pending } = trace;
  if (pending === null) return;
  try {
    await appendDrafts(pending.drafts, ports.append, pending.smaller);
  } catch (error) {
    if (isTapedeckError(error, ...REFUSALS)) trace.pending = null;
    throw error;
  }
  trace.pending = null;
  pending.apply();
}

function plan({ call, sent, outcome, limit, responseId }: Finished, ports: FinishPorts): NonNullable<TraceState['pending']> {
  const { trace, inbound } = call;
  const planned = planSafely(trace, exchangeOf(call, sent, outcome), call.printing, ports);
  const published = ports.policies.at(trace.scope.project, trace.scope.run);
  const facts = { call, sent, outcome, plan: planned, published, responseId, ...(limit !== undefined && { limit }) };
  const { data, spliced } = callData(facts);
  const draft = (type: Draft['type'], time: number, body: Draft['data']): Draft => ({
    id: uuidV7(ports.clock, ports.random),
    type,
    scope: trace.scope,
    time,
    data: body,
  });
  const nodes = nodeEvents(planned, { call: call.index, policyVersion: data.policyVersion ?? null });
  const drafts = nodes.map(({ time, data: node }) => draft('node.appended', time, node));
  drafts.push(draft('call.recorded', outcome.end, { ...data, request: spliced.request, response: spliced.response ?? data.response }));
  return {
    drafts,
    // thousands of small values cannot leave a record for the blob store, one text can
    smaller: () => {
      const call = drafts.at(-1) as Draft;
      return [...drafts.slice(0, -1), { ...call, data: { ...call.data, request: inbound.text, response: textOf(call.data['response']) } }];
    },
    apply: () => {
      applyNodes(trace.graph, planned.nodes);
      const [answer] = planned.answers;
      if (answer !== undefined && planned.drift.length === 0) call.printing?.remember(trace.graph.parents[answer.node] as number);
      noteCall(trace, data);
    },
  };
}

function textOf(response: unknown): unknown {
  if (!(response instanceof Encoded)) return response === undefined || typeof response === 'string' ? response : toJson(response);
  const out = new ByteWriter(response.bytes.length);
  cborToJson(response.bytes, 0, response.bytes.length, out, { streams: false });
  return out.view().toString('utf8');
}

/** A plan that would break the identity of tokens is a fault of ours: the texts are kept, without tokens, and say so. */
function planSafely(trace: TraceState, exchange: Exchange, printing: Printing | null, { onFault }: FinishPorts): ExchangePlan {
  const prints = printing?.take();
  try {
    return planExchange(trace.graph, exchange, prints);
  } catch (error) {
    onFault(error);
    const tokenError = isTapedeckError(error) ? error.code : 'internal';
    const choices = exchange.choices.map((choice) => ({ ...choice, ids: null, logprobs: null, policyRuns: null, tokenError }));
    return planExchange(trace.graph, { ...exchange, promptIds: null, choices }, prints);
  }
}

function exchangeOf(call: Call, sent: Sent | null, outcome: Outcome): Exchange {
  const { inbound, messages, isRetry, start } = call;
  const { nodes } = inbound.endpoint;
  const hasNodes = nodes !== 'none';
  const promptIds = hasNodes ? (outcome.tokens?.promptIds?.take() ?? null) : null;
  return {
    tools: inbound.ask.tools,
    messages: nodes === 'messages' ? messages : null,
    promptIds,
    spans: promptIds === null ? null : (sent?.ladder?.spans(promptIds) ?? null),
    choices: hasNodes ? choicesOf(outcome, nodes === 'messages') : [],
    start,
    end: outcome.end,
    retry: isRetry,
    compaction: false,
  };
}
