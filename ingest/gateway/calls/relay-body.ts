/** An answer in one piece: read whole, recorded, and only then given to the harness; as a stream where it asked for one. */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { jsonToCbor } from '../../../events/codec/json-to-cbor.ts';
import type { Answer, Json } from '../dialects/dialect.ts';
import { isObject, readJson, textOf } from '../dialects/json.ts';
import { Encoded } from '../record/draft.ts';
import { encodeSse } from '../sse/sse-encoder.ts';
import { tokensOfAnswer } from '../upstreams/answer-tokens.ts';
import { cutTokens, noTokenData, type TokenData } from '../upstreams/token-cut.ts';
import { deltasOf } from './answer-deltas.ts';
import { harnessHeaders } from './harness-headers.ts';
import { isEmpty, type CallError, type Outcome } from './outcome.ts';
import { callErrorOf, JSON_TYPE, jsonBuffer, namingOf, recorded, sendBody, sendError, SSE_HEADERS, type Relay, type RelayInput, type Settled } from './relay.ts'; // prettier-ignore
import { Stopped } from './stopped.ts';

/** What was read of the body: `shown` is what a harness of the same dialect gets. */
type Read = {
  readonly answer: Answer | null;
  readonly tokens: TokenData | null;
  readonly error: CallError | null;
  readonly shown: Buffer;
  readonly response: Encoded | Json | undefined;
};

export function createBodyRelay(input: RelayInput): Relay {
  const { call, out, exchange, ports } = input;
  const chunks: Buffer[] = [];
  let bytes = 0;
  let firstByte: number | null = null;
  out.onGone = (reason) => {
    if (reason === 'stalled') return;
    if (input.sent.upstream.settings.stopUpstreamOnDisconnect)
      exchange.abort(new Stopped('cancelled', 'the harness left before the answer came'));
  };
  return {
    onChunk(chunk) {
      firstByte ??= ports.clock.nowMicros();
      bytes += chunk.length;
      if (bytes > ports.limits.answerBytes) {
        const limit = ports.limits.answerBytes;
        exchange.abort(
          new Stopped(
            'answer_too_large',
            `the answer has more than ${limit} bytes, the limit of an answer that is not streamed; ask for a stream`,
          ),
        );
      } else chunks.push(chunk);
      return true;
    },
    onEnd() {
      void conclude(input, readBody(input, Buffer.concat(chunks)), firstByte);
    },
    onError(error) {
      const read: Read = { answer: null, tokens: null, error: callErrorOf(error), shown: Buffer.concat(chunks), response: undefined };
      void (call.inbound.ask.stream && out.isStarted ? conclude(input, read, firstByte) : concludeBroken(input, read, firstByte));
    },
  };
}

function readBody(input: RelayInput, body: Buffer): Read {
  const { status, sent, call } = input;
  if (status >= 400) return refusalOf(status, body);
  const none = { answer: null, tokens: null, shown: body, response: undefined };
  if (body.length === 0) return { ...none, error: { type: 'empty_answer', message: 'the upstream answered nothing', statusCode: status } };
  const { outbound } = sent;
  const tokens = noTokenData();
  const text = body.toString('utf8');
  const cut = outbound.readsTokens ? cutTokens(text, outbound.unwanted, tokens) : { bare: text, shown: text, added: 0 };
  const json = readJson(cut.bare);
  const malformed = (message: string): Read => ({ ...none, error: { type: 'malformed_answer', message }, response: text });
  if (!json.ok) return malformed(json.error.message);
  if (!isObject(json.value)) return malformed('the answer is no JSON object');
  const answer = outbound.dialect.parseAnswer(json.value);
  if (!answer.ok) return malformed(answer.error.message);
  tokensOfAnswer(call.inbound, json.value, tokens);
  input.versions.onDocument(json.value, null, 0);
  const isSilent = call.inbound.endpoint.nodes === 'messages' && isEmpty(answer.value);
  return {
    answer: answer.value,
    tokens: outbound.readsTokens ? tokens : null,
    error: isSilent ? { type: 'empty_answer', message: 'the model said nothing' } : null,
    shown: cut.shown === text ? body : Buffer.from(cut.shown),
    response: responseOf(
      call.inbound.endpoint.nodes === 'none' ? text : outbound.unwanted.logprobs || outbound.isTranslated ? cut.bare : cut.shown,
      tokens.fault === null,
    ),
  };
}

/** As CBOR, exactly; what is no clean JSON (a bare NaN) stays the text it was. */
function responseOf(text: string, isClean: boolean): Encoded | string {
  if (!isClean) return text;
  const bytes = Buffer.from(text);
  const out = new ByteWriter(bytes.length + 64);
  try {
    jsonToCbor(bytes, 0, bytes.length, out, { streams: false });
    return new Encoded(out.view());
  } catch (error) {
    if (isTapedeckError(error)) return text;
    throw error;
  }
}

function refusalOf(status: number, body: Buffer): Read {
  const text = body.toString('utf8');
  const json = readJson(text);
  const type = status < 500 ? 'upstream_refused' : 'upstream_failed';
  const message = (json.ok ? messageIn(json.value) : null) ?? `the upstream answered ${status}`;
  return {
    answer: null,
    tokens: null,
    shown: body,
    error: { type, message, statusCode: status },
    response: json.ok ? responseOf(text, true) : text,
  };
}

/** The sentence of an error body, in whichever shape. */
function messageIn(value: Json): string | null {
  if (!isObject(value)) return null;
  const inner = value['error'];
  return textOf(value['message']) ?? (isObject(inner) ? textOf(inner['message']) : textOf(inner)) ?? textOf(value['detail']);
}

function outcomeOf(input: RelayInput, read: Read, firstByte: number | null): Outcome {
  const { call, status, ports, versions } = input;
  const { scope } = call.trace;
  return {
    status,
    answer: read.answer,
    tokens: read.tokens,
    error: read.error,
    // of an answer in one piece nobody knows when its first token came
    firstToken: null,
    end: ports.clock.nowMicros(),
    chunks: null,
    versions: versions.versions({ start: call.published, end: ports.policies.at(scope.project, scope.run) }),
    response: read.response,
    flags: input.out.isGone && read.error?.type !== 'cancelled' && firstByte !== null ? ['harness_left'] : [],
  };
}

async function conclude(input: RelayInput, read: Read, firstByte: number | null): Promise<void> {
  const { call, sent, out, headers, marks, ports, status } = input;
  const { inbound } = call;
  const naming = namingOf(ports.clock, ports.newId);
  const isPlain = !sent.outbound.isTranslated && !(inbound.ask.stream && read.answer !== null);
  const reply = isPlain || read.answer === null ? null : written(input, read.answer, naming);
  const responseId = inbound.endpoint.dialect === 'openai.responses' ? (naming.responseId() ?? read.answer?.id ?? null) : null;
  const failure = await recorded(input, outcomeOf(input, read, firstByte), responseId);
  if (failure !== null) {
    sendError(out, inbound.dialect, { status: failure.status, code: failure.code, message: failure.message }, marks);
    return input.settle(failed(failure.status));
  }
  const own = { ...harnessHeaders(headers), ...marks };
  if (read.answer === null) answerFailure(input, read, own);
  else if (reply === null) sendBody(out, status, own, read.shown);
  else reply(own);
  const isGood = read.answer !== null && status < 400;
  input.settle({ isReplayable: isGood, status, headers: own, body: isPlain ? read.shown : null, answer: read.answer });
}

/** The upstream's refusal in its own shape and status; in the harness's shape where the dialects differ. */
function answerFailure(
  { call, sent, out, status, marks }: RelayInput,
  { error, shown }: Read,
  own: Record<string, string | string[]>,
): void {
  if (!sent.outbound.isTranslated) return sendBody(out, status, own, shown);
  const { type, message } = error as CallError;
  sendError(out, call.inbound.dialect, { status: status >= 400 ? status : 502, code: type, message }, keepRetryHeaders(own, marks));
}

function keepRetryHeaders(
  own: Record<string, string | string[]>,
  marks: Record<string, string | string[]>,
): Record<string, string | string[]> {
  const kept = Object.entries(own).filter(([name]) => name === 'retry-after' || name === 'retry-after-ms' || name === 'x-should-retry');
  return { ...Object.fromEntries(kept), ...marks };
}

/** The answer in the harness's dialect, as a stream or a body; what cannot be said there is refused by name. */
function written(
  { call, out, marks }: RelayInput,
  answer: Answer,
  naming: ReturnType<typeof namingOf>,
): (own: Record<string, string | string[]>) => void {
  const { dialect, ask } = call.inbound;
  if (!ask.stream) {
    const body = dialect.writeAnswer(answer, ask, naming);
    if (!body.ok) return () => sendError(out, dialect, { status: 502, code: body.error.code, message: body.error.message }, marks);
    const bytes = jsonBuffer(body.value);
    return (own) => sendBody(out, 200, { ...own, 'content-type': JSON_TYPE }, bytes);
  }
  const writer = dialect.createWriter(ask, naming);
  const frames: Uint8Array[] = [];
  for (const delta of deltasOf(answer)) {
    const made = writer.write(delta);
    if (!made.ok) return () => sendError(out, dialect, { status: 502, code: made.error.code, message: made.error.message }, marks);
    frames.push(...made.value.map(encodeSse));
  }
  frames.push(...writer.end().map(encodeSse));
  return (own) => {
    if (!out.isStarted) out.head(200, { ...own, ...SSE_HEADERS });
    out.end(Buffer.concat(frames));
  };
}

/** No whole answer came. */
async function concludeBroken(input: RelayInput, read: Read, firstByte: number | null): Promise<void> {
  const { call, out, marks } = input;
  const error = read.error as CallError;
  const failure = await recorded(input, outcomeOf(input, { ...read, response: undefined }, firstByte), null);
  const status = failure?.status ?? (error.type === 'upstream_timeout' ? 504 : error.type === 'rollout_ended' ? 409 : 502);
  sendError(out, call.inbound.dialect, { status, code: failure?.code ?? error.type, message: failure?.message ?? error.message }, marks);
  input.settle(failed(status));
}

export function failed(status: number): Settled {
  return { isReplayable: false, status, headers: {}, body: null, answer: null };
}
