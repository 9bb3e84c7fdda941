/** Sends a call to an upstream and hands its answer to a relay. Another upstream is tried only while nothing of an answer has reached the harness. */
import type { IncomingHttpHeaders } from 'node:http';
import { isTapedeckError } from '../../../base/errors.ts';
import type { Problem } from '../../../base/result.ts';
import type { Dialect, DialectName } from '../dialects/dialect.ts';
import type { Upstream } from '../upstreams/pool.ts';
import { timeoutsOf, type UpstreamExchange } from '../upstreams/http.ts';
import type { Call, Sent } from './call.ts';
import { spokenAt, urlAt } from './endpoints.ts';
import { contentTypeOf, upstreamHeaders, type PlainHeaders } from './harness-headers.ts';
import type { HarnessOut } from './out.ts';
import { startLadder } from './ladder.ts';
import { outboundOf } from './outbound.ts';
import type { Attempt, CallError } from './outcome.ts';
import { createBodyRelay } from './relay-body.ts';
import { createStreamRelay } from './relay-stream.ts';
import { callErrorOf, SSE_HEADERS, type Relay, type RelayPorts, type Settled } from './relay.ts';
import { Stopped } from './stopped.ts';
import { createVersionWatch } from './versions.ts';

export type ForwardInput = {
  readonly call: Call;
  readonly headers: IncomingHttpHeaders;
  readonly out: HarnessOut;
  readonly marks: PlainHeaders;
  readonly candidates: readonly Upstream[];
  readonly dialectOf: (name: DialectName) => Dialect;
  readonly ports: RelayPorts;
  readonly control: CallControl;
  /** The call must be over by then, milliseconds from now; null = only the upstream's own limit. */
  readonly leftMs: number | null;
};

/** Ends a call from outside, whatever it is doing. */
export type CallControl = { readonly stop: (reason: Stopped) => void; stopped: Stopped | null; current: UpstreamExchange | null };

export function createCallControl(): CallControl {
  const control: CallControl = {
    stopped: null,
    current: null,
    stop: (reason) => {
      control.stopped ??= reason;
      control.current?.abort(reason);
    },
  };
  return control;
}

/** `relayed`: recorded and answered. `failed`: no upstream answered; nothing is recorded or answered yet. `refused`: nothing was sent. */
export type Forwarded =
  | { readonly kind: 'relayed'; readonly settled: Settled }
  | { readonly kind: 'failed'; readonly sent: Sent; readonly error: CallError }
  | { readonly kind: 'refused'; readonly problem: Problem };

/** A gateway in front of a dead engine says these; another engine may be alive. */
const WORTH_ANOTHER = new Set([502, 503, 504]);

export async function forward(input: ForwardInput): Promise<Forwarded> {
  const { call, candidates, dialectOf } = input;
  const { inbound, trace } = call;
  const attempts: Attempt[] = [];
  let refusal: Problem | null = null;
  let last: { sent: Sent; error: CallError } | null = null;
  for (const [i, upstream] of candidates.entries()) {
    const spoken = spokenAt(upstream.settings.kind, inbound.dialect.name);
    if (spoken === null) {
      refusal ??= {
        code: 'not_found',
        message: `the upstream ${upstream.settings.name} (${upstream.settings.kind}) has no ${inbound.endpoint.path}`,
      };
      continue;
    }
    const model = upstream.modelName(trace.settings.model ?? inbound.ask.model) ?? '';
    const outbound = outboundOf(
      { ...inbound, ask: { ...inbound.ask } },
      { upstream: upstream.settings, model, settings: trace.settings, dialect: dialectOf(spoken) },
    );
    if (!outbound.ok) {
      refusal ??= outbound.error;
      continue;
    }
    const sent: Sent = { upstream, outbound: outbound.value, model, attempts: [...attempts], ladder: null };
    const began = input.ports.clock.monotonicMs();
    const tried = await attempt(input, sent, i < candidates.length - 1);
    if (tried.kind === 'relayed') return tried;
    last = { sent, error: tried.error };
    if (input.control.stopped !== null) break;
    attempts.push({ upstream: upstream.settings.name, error: tried.error.type, ms: Math.round(input.ports.clock.monotonicMs() - began) });
  }
  if (last !== null) return { kind: 'failed', ...last };
  return { kind: 'refused', problem: refusal ?? { code: 'internal', message: 'no upstream was tried' } };
}

type Tried = { readonly kind: 'relayed'; readonly settled: Settled } | { readonly kind: 'unreached'; readonly error: CallError };

function attempt(input: ForwardInput, sent: Sent, hasMore: boolean): Promise<Tried> {
  const { call, headers, out, marks, ports, leftMs, control } = input;
  const { upstream, outbound } = sent;
  const { settings } = upstream;
  const { promise, resolve } = Promise.withResolvers<Tried>();
  const versions = createVersionWatch(settings);
  let relay: Relay | null = null;
  const over = new AbortController();
  const finish = (tried: Tried): void => {
    over.abort(OVER);
    sent.ladder?.stop();
    control.current = null;
    resolve(tried);
  };
  const own = upstreamHeaders(headers, settings, call.trace.scope.trace);
  const exchange: UpstreamExchange = upstream.http.send(
    {
      method: 'POST',
      url: urlAt(settings, outbound.dialect.name),
      headers: own,
      body: outbound.body,
      ...timeoutsOf(settings),
    },
    {
      onHead(status, answered) {
        upstream.note(true);
        if (hasMore && WORTH_ANOTHER.has(status)) {
          return exchange.abort(new Stopped('upstream_failed', `the upstream answered ${status}`));
        }
        versions.onHead(answered);
        const settle = (settled: Settled): void => finish({ kind: 'relayed', settled });
        const shared = { call, sent, out, status, headers: answered, marks, exchange, versions, ports, settle };
        const isStream = status < 400 && outbound.isStream && contentTypeOf(answered) === 'text/event-stream';
        relay = isStream ? createStreamRelay(shared) : createBodyRelay(shared);
      },
      onChunk: (chunk) => relay?.onChunk(chunk) ?? true,
      onEnd: () => relay?.onEnd(),
      onError(error) {
        if (relay !== null) return relay.onError(error);
        if (isTapedeckError(error, 'upstream_unavailable')) upstream.note(false);
        finish({ kind: 'unreached', error: callErrorOf(error) });
      },
    },
  );
  sent.ladder = startLadder(call, upstream, outbound, own);
  control.current = exchange;
  if (control.stopped !== null) exchange.abort(control.stopped);
  out.onGone = () => {
    if (settings.stopUpstreamOnDisconnect) control.stop(new Stopped('cancelled', 'the harness left before the answer began'));
  };
  if (call.inbound.ask.stream && !outbound.isStream) out.silentHead = { ...SSE_HEADERS, ...marks };
  const totalMs = Math.min(settings.timeouts.totalMs, leftMs ?? Infinity);
  void ports.clock.sleep(totalMs, over.signal).then(
    () => control.stop(leftMs === totalMs ? new Stopped('max_wall_time', 'the time of this rollout is over') : tooSlow(totalMs)),
    () => {},
  );
  return promise;
}

function tooSlow(ms: number): Stopped {
  return new Stopped('upstream_timeout', `the upstream took longer than ${ms} ms`);
}

const OVER = new Error('the call is over');
