/** What the relays of an answer share: their inputs, and how a call ends for the harness, for the record, and for whoever repeats it. */
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import type { Clock } from '../../../base/clock.ts';
import type { Answer, Naming } from '../dialects/dialect.ts';
import type { UpstreamExchange, UpstreamHeaders } from '../upstreams/http.ts';
import type { Call, Sent } from './call.ts';
import { finishCall, type FinishPorts } from './finish.ts';
import type { PlainHeaders } from './harness-headers.ts';
import type { HarnessOut } from './out.ts';
import type { CallError, Outcome } from './outcome.ts';
import type { VersionWatch } from './versions.ts';

export type RelayLimits = {
  /** One answer that is not streamed. */
  readonly answerBytes: number;
  /** One event of a stream. */
  readonly eventBytes: number;
  /** What is held back of a stream from its terminal event on. */
  readonly heldBytes: number;
};

export type RelayPorts = FinishPorts & { readonly limits: RelayLimits; readonly newId: (prefix: string) => string };

/** How a call ended for its harness: what a repetition of it is told. `isReplayable` = it succeeded and is durable. */
export type Settled = {
  readonly isReplayable: boolean;
  readonly status: number;
  readonly headers: PlainHeaders;
  /** The body as the harness got it; null for a stream. */
  readonly body: Buffer | null;
  readonly answer: Answer | null;
};

export type RelayInput = {
  readonly call: Call;
  readonly sent: Sent;
  readonly out: HarnessOut;
  readonly status: number;
  readonly headers: UpstreamHeaders;
  /** Headers of ours, for every answer of the call. */
  readonly marks: PlainHeaders;
  readonly exchange: UpstreamExchange;
  readonly versions: VersionWatch;
  readonly ports: RelayPorts;
  readonly settle: (settled: Settled) => void;
};

/** Takes the answer of one upstream; `onEnd` or `onError` comes once, and after it the call is recorded and answered. */
export type Relay = {
  onChunk(chunk: Buffer): boolean;
  onEnd(): void;
  onError(error: Error): void;
};

export const SSE_HEADERS: PlainHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
};

export function callErrorOf(error: Error): CallError {
  if ('callError' in error) return error.callError as CallError;
  if (isTapedeckError(error)) return { type: error.code, message: error.message };
  return { type: 'upstream_unavailable', message: error.message };
}

/** Ids that a translated answer needs; `responseId` is the one a later request may name. */
export function namingOf(clock: Clock, newId: (prefix: string) => string): Naming & { readonly responseId: () => string | null } {
  let responseId: string | null = null;
  return {
    nowSeconds: () => Math.floor(clock.nowMicros() / 1e6),
    newId: (prefix) => {
      const id = newId(prefix);
      if (prefix.startsWith('resp')) responseId ??= id;
      return id;
    },
    responseId: () => responseId,
  };
}

/** Makes the call durable; the error that hinders it is answered, not thrown. */
export async function recorded(
  input: Pick<RelayInput, 'call' | 'sent' | 'ports'>,
  outcome: Outcome,
  responseId: string | null,
): Promise<TapedeckError | null> {
  const { call, sent, ports } = input;
  try {
    await finishCall({ call, sent, outcome, responseId }, ports);
    return null;
  } catch (error) {
    ports.onFault(error);
    if (isTapedeckError(error)) return error;
    return new TapedeckError('internal', 'recording the call failed for a reason nobody foresaw; the server log has it', { cause: error });
  }
}
