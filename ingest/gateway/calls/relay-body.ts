/** An answer in one piece: read whole, recorded, and only then given to the harness; as a stream where it asked for one. */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import type { Problem } from '../../../base/result.ts';
import { jsonToCbor } from '../../../events/codec/json-to-cbor.ts';
import type { Answer, Json } from '../dialects/dialect.ts';
import { isObject, readJson, textOf } from '../dialects/json.ts';
import { Encoded } from '../record/draft.ts';
import { encodeSse } from '../sse/sse-encoder.ts';
import { tokensOfAnswer } from '../upstreams/answer-tokens.ts';
import { cutTokens, noTokenData, type TokenData } from '../upstreams/token-cut.ts';
import { deltasOf } from './answer-deltas.ts';
import type { Call } from './call.ts';
import { harnessHeaders, type PlainHeaders } from './harness-headers.ts';
import { isEmpty, type CallError, type Outcome } from './outcome.ts';
import { callErrorOf, namingOf, recorded, SSE_HEADERS, type Relay, type RelayInput, type Settled } from './relay.ts';
import { JSON_TYPE, jsonBuffer, sendReply, toldNothing, toldOf, type Reply, type Told } from './reply.ts';
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

function outcomeOf(input: RelayInput, read: Read, firstByte: number | null, told: Told): Outcome {
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
    told,
    flags: input.out.isGone && read.error?.type !== 'cancelled' && firstByte !== null ? ['harness_left'] : [],
  };
}

async function conclude(input: RelayInput, read: Read, firstByte: number | null): Promise<void> {
  const { call, sent, headers, marks, ports, status } = input;
  const { inbound } = call;
  const naming = namingOf(ports.clock, ports.newId);
  const own = { ...harnessHeaders(headers), ...marks };
  const isPlain = !sent.outbound.isTranslated && !(inbound.ask.stream && read.answer !== null);
  const reply = replyTo(input, read, isPlain ? null : naming, own);
  const responseId = inbound.endpoint.dialect === 'openai.responses' ? (naming.responseId() ?? read.answer?.id ?? null) : null;
  if (!(await tell(input, read, firstByte, reply, responseId))) return;
  const isGood = read.answer !== null && status < 400;
  input.settle({ isReplayable: isGood, status, headers: own, body: isPlain ? read.shown : null, answer: read.answer });
}

/** Records the call and gives the harness its answer; false when the record failed and it got an error instead, with which the call is settled. */
async function tell(input: RelayInput, read: Read, firstByte: number | null, reply: Reply, responseId: string | null): Promise<boolean> {
  const { call, out, marks, ports } = input;
  const { dialect } = call.inbound;
  const hasLeft = read.error?.type === 'cancelled';
  const told = hasLeft ? toldNothing(out) : toldOf(out, dialect, reply, ports.clock.nowMicros() - call.start);
  const failure = await recorded(input, outcomeOf(input, read, firstByte, told), responseId);
  if (failure === null) {
    sendReply(out, dialect, reply);
    return true;
  }
  const { status, code, message } = failure;
  sendReply(out, dialect, { kind: 'error', status, code, message, headers: marks });
  input.settle(failed(status));
  return false;
}

/** `naming`: null where the upstream's own body goes on as it is. */
function replyTo(
  { call, sent, out, status, marks }: RelayInput,
  { answer, error, shown }: Read,
  naming: ReturnType<typeof namingOf> | null,
  own: PlainHeaders,
): Reply {
  if (answer !== null && naming !== null) return written(call, answer, naming, own, marks);
  if (answer !== null || !(sent.outbound.isTranslated || out.isStarted)) return { kind: 'body', status, headers: own, body: shown };
  // the upstream's refusal, in the harness's shape; in a stream that has begun nothing else can be said
  const { type, message } = error as CallError;
  return { kind: 'error', status: status >= 400 ? status : 502, code: type, message, headers: keepRetryHeaders(own, marks) };
}

function keepRetryHeaders(own: PlainHeaders, marks: PlainHeaders): PlainHeaders {
  const kept = Object.entries(own).filter(([name]) => name === 'retry-after' || name === 'retry-after-ms' || name === 'x-should-retry');
  return { ...Object.fromEntries(kept), ...marks };
}

/** The answer in the harness's dialect, as a stream or a body; what cannot be said there is refused by name. */
function written(
  { inbound: { dialect, ask } }: Call,
  answer: Answer,
  naming: ReturnType<typeof namingOf>,
  own: PlainHeaders,
  marks: PlainHeaders,
): Reply {
  const unsayable = ({ code, message }: Problem): Reply => ({ kind: 'error', status: 502, code, message, headers: marks });
  if (!ask.stream) {
    const body = dialect.writeAnswer(answer, ask, naming);
    if (!body.ok) return unsayable(body.error);
    return { kind: 'body', status: 200, headers: { ...own, 'content-type': JSON_TYPE }, body: jsonBuffer(body.value) };
  }
  const writer = dialect.createWriter(ask, naming);
  const frames: Uint8Array[] = [];
  for (const delta of deltasOf(answer)) {
    const made = writer.write(delta);
    if (!made.ok) return unsayable(made.error);
    frames.push(...made.value.map(encodeSse));
  }
  frames.push(...writer.end().map(encodeSse));
  return { kind: 'stream', headers: { ...own, ...SSE_HEADERS }, body: Buffer.concat(frames) };
}

/** No whole answer came. */
async function concludeBroken(input: RelayInput, read: Read, firstByte: number | null): Promise<void> {
  const { type: code, message } = read.error as CallError;
  const status = code === 'upstream_timeout' ? 504 : code === 'rollout_ended' ? 409 : 502;
  const reply: Reply = { kind: 'error', status, code, message, headers: input.marks };
  if (await tell(input, { ...read, response: undefined }, firstByte, reply, null)) input.settle(failed(status));
}

export function failed(status: number): Settled {
  return { isReplayable: false, status, headers: {}, body: null, answer: null };
}
