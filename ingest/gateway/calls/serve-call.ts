/** One call of a harness, from its body to its answer: limits, repetitions, the upstream, the record. */
import type { IncomingHttpHeaders } from 'node:http';
import { isTapedeckError } from '../../../base/errors.ts';
import type { Dialect, DialectName, Message } from '../dialects/dialect.ts';
import { encodeSse } from '../sse/sse-encoder.ts';
import type { TraceState } from '../traces/state.ts';
import type { UpstreamPool } from '../upstreams/pool.ts';
import { deltasOf } from './answer-deltas.ts';
import type { Call } from './call.ts';
import { finishCall, storePending, inTurn } from './finish.ts';
import { createCallControl, forward } from './forward.ts';
import type { PlainHeaders } from './harness-headers.ts';
import type { Inbound } from './inbound.ts';
import { reachedLimit, wallLeftMs, type Reached } from './limit-check.ts';
import type { HarnessOut } from './out.ts';
import type { CallError, Outcome } from './outcome.ts';
import { refusal, refuse } from './refuse.ts';
import { namingOf, recorded, SSE_HEADERS, type RelayPorts, type Settled } from './relay.ts';
import { jsonBuffer, JSON_TYPE, sendReply, toldNothing, toldOf, type Reply } from './reply.ts';
import { failed } from './relay-body.ts';
import type { RetryWindow } from './retries.ts';
import { startPrinting } from './printing.ts';

export type ServePorts = RelayPorts & {
  readonly pool: UpstreamPool;
  readonly retries: RetryWindow;
  readonly dialectOf: (name: DialectName) => Dialect;
};

export type Asked = {
  readonly trace: TraceState;
  readonly inbound: Inbound;
  readonly messages: readonly Message[];
  readonly headers: IncomingHttpHeaders;
  /** Named in the path. */
  readonly upstream: string | null;
};

/** Resolves when the call is over: recorded, and answered to the harness (or to nobody, when it left). */
export async function serveCall(asked: Asked, out: HarnessOut, ports: ServePorts): Promise<void> {
  const { trace, inbound, headers } = asked;
  const { dialect } = inbound;
  const marks: PlainHeaders = { 'x-tapedeck-trace': encodeURIComponent(trace.scope.trace) };
  const ending = trace.ended ?? trace.rollout.ended;
  if (ending !== null) {
    const why = ending.stopCondition === null ? '' : ` (${ending.stopCondition})`;
    return refuse(
      out,
      dialect,
      { code: 'rollout_ended', message: `this rollout was ended${why}; start another one with POST /v1/rollouts` },
      marks,
    );
  }
  const repeat = ports.retries.look(trace.scope.trace, headers, inbound.digest);
  if (!repeat.ok) return refuse(out, dialect, repeat.error, marks);
  if (repeat.value.kind === 'same') return answerAgain(asked, out, ports, marks, repeat.value.index, await repeat.value.settled);
  if (trace.pending !== null) {
    const stored = await inTurn(trace, () => storePending(trace, ports)).then(() => null, asProblem);
    if (stored !== null) return refuse(out, dialect, stored, marks);
  }
  const now = ports.clock.nowMicros();
  const call = begin(asked, now, repeat.value, ports);
  const limit = reachedLimit(trace, now);
  if (limit !== null) return refuseLimit(asked, limit, trace.stop === null ? call() : null, out, ports, marks);
  const candidates = ports.pool.candidates(trace.settings.model ?? inbound.ask.model, {
    sticky: trace.scope.trace,
    pinned: trace.settings.upstream ?? asked.upstream,
  });
  if (!candidates.ok) return refuse(out, dialect, candidates.error, marks);
  const begun = call();
  const settle = ports.retries.begin(trace.scope.trace, headers, inbound.digest, begun.index);
  const control = createCallControl();
  trace.inFlight.add(control.stop);
  try {
    const mine = { ...marks, 'x-tapedeck-call': String(begun.index) };
    const leftMs = wallLeftMs(trace, now);
    const result = await forward({
      call: begun,
      headers,
      out,
      marks: mine,
      candidates: candidates.value,
      dialectOf: ports.dialectOf,
      ports,
      leftMs,
      control,
    });
    if (result.kind === 'relayed') settle(result.settled);
    else if (result.kind === 'refused') {
      const reply = refusal(result.problem, mine);
      await recordFailure(
        { call: begun, sent: null, error: { type: result.problem.code, message: result.problem.message }, out, reply },
        ports,
      );
      sendReply(out, dialect, reply);
      settle(failed(422));
    } else {
      settle(await answerUnreached(begun, result, out, ports, mine));
    }
  } finally {
    trace.inFlight.delete(control.stop);
    settle(failed(500));
  }
}

/** The index is taken only when the call is certain to be recorded. */
function begin(
  { trace, inbound, messages, headers }: Asked,
  start: number,
  repeat: { isRetry: boolean; retryOf: number | null },
  ports: ServePorts,
): () => Call {
  return () => ({
    trace,
    inbound,
    messages,
    instructions: inbound.ask.instructions,
    index: trace.nextCall++,
    start,
    isRetry: repeat.isRetry,
    retryOf: repeat.retryOf,
    published: ports.policies.at(trace.scope.project, trace.scope.run),
    client: headers['user-agent'] ?? null,
    printing: inbound.endpoint.nodes === 'messages' ? startPrinting(trace.graph, trace.printed, inbound, messages) : null,
  });
}

function asProblem(error: unknown): { code: 'append_unclear'; message: string } {
  const message = isTapedeckError(error) ? error.message : 'storing failed';
  return { code: 'append_unclear', message: `an earlier call of this trace is not certain to be stored yet: ${message}` };
}

/** Only the first refusal is recorded: a harness that goes on asking fills no log. */
async function refuseLimit(
  { inbound }: Asked,
  { stop, message }: Reached,
  call: Call | null,
  out: HarnessOut,
  ports: ServePorts,
  marks: PlainHeaders,
): Promise<void> {
  const reply = refusal({ code: 'limit_reached', message }, marks, { status: 400, code: stop });
  if (call !== null) {
    const end = ports.clock.nowMicros();
    const told = toldOf(out, inbound.dialect, reply, end - call.start);
    const outcome: Outcome = { ...NOTHING, error: { type: stop, message, statusCode: 400 }, end, told };
    try {
      await finishCall({ call, sent: null, outcome, limit: stop, responseId: null }, ports);
    } catch (error) {
      ports.onFault(error);
      return refuse(out, inbound.dialect, asProblem(error), marks);
    }
  }
  sendReply(out, inbound.dialect, reply);
}

const NOTHING: Omit<Outcome, 'end' | 'told'> = {
  status: null,
  answer: null,
  tokens: null,
  error: null,
  firstToken: null,
  chunks: null,
  versions: null,
  response: undefined,
  flags: [],
};

type Failure = {
  readonly call: Call;
  readonly sent: Parameters<typeof recorded>[0]['sent'] | null;
  readonly error: CallError;
  readonly out: HarnessOut;
  readonly reply: Reply;
};

async function recordFailure({ call, sent, error, out, reply }: Failure, ports: ServePorts): Promise<void> {
  const end = ports.clock.nowMicros();
  const told = error.type === 'cancelled' ? toldNothing(out) : toldOf(out, call.inbound.dialect, reply, end - call.start);
  const outcome: Outcome = { ...NOTHING, error, end, told };
  await finishCall({ call, sent, outcome, responseId: null }, ports).catch(ports.onFault);
}

async function answerUnreached(
  call: Call,
  { sent, error }: { readonly sent: Parameters<typeof recorded>[0]['sent']; readonly error: CallError },
  out: HarnessOut,
  ports: ServePorts,
  marks: PlainHeaders,
): Promise<Settled> {
  const status =
    error.type === 'upstream_timeout' ? 504 : error.type === 'rollout_ended' ? 409 : error.type === 'max_wall_time' ? 400 : 502;
  const headers = status >= 500 ? marks : { ...marks, 'x-should-retry': 'false' };
  const reply: Reply = { kind: 'error', status, code: error.type, message: error.message, headers };
  await recordFailure({ call, sent, error, out, reply }, ports);
  sendReply(out, call.inbound.dialect, reply);
  return failed(status);
}

/** The answer of the call that this request repeats: the same body, or the same answer as a stream. */
function answerAgain({ inbound }: Asked, out: HarnessOut, ports: ServePorts, marks: PlainHeaders, index: number, settled: Settled): void {
  const { dialect, ask } = inbound;
  const headers = { ...settled.headers, ...marks, 'x-tapedeck-call': String(index), 'idempotency-replayed': 'true' };
  if (out.isGone) return;
  if (!settled.isReplayable || settled.answer === null) {
    return refuse(
      out,
      dialect,
      { code: 'upstream_unavailable', message: 'the call that this request repeats failed; send it again' },
      marks,
    );
  }
  if (settled.body !== null) return sendReply(out, dialect, { kind: 'body', status: settled.status, headers, body: settled.body });
  const naming = namingOf(ports.clock, ports.newId);
  if (!ask.stream) {
    const body = dialect.writeAnswer(settled.answer, ask, naming);
    if (!body.ok) return refuse(out, dialect, body.error, marks);
    return sendReply(out, dialect, {
      kind: 'body',
      status: 200,
      headers: { ...headers, 'content-type': JSON_TYPE },
      body: jsonBuffer(body.value),
    });
  }
  const writer = dialect.createWriter(ask, naming);
  const frames: Uint8Array[] = [];
  for (const delta of deltasOf(settled.answer)) {
    const made = writer.write(delta);
    if (!made.ok) return refuse(out, dialect, made.error, marks);
    frames.push(...made.value.map(encodeSse));
  }
  frames.push(...writer.end().map(encodeSse));
  sendReply(out, dialect, { kind: 'stream', headers: { ...headers, ...SSE_HEADERS }, body: Buffer.concat(frames) });
}
