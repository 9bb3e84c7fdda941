/**
 * A streamed answer: every event goes on as it comes (in the upstream's own bytes where the dialects are the same, without the token data nobody asked for), until
 * the one from which on a harness may think that the answer is finished. That one and all after it are held until the call is durable.
 */
import type { Answer, AnswerFold, FoldStep, Json, StreamWriter } from '../dialects/dialect.ts';
import { isList, isObject } from '../dialects/json.ts';
import { createPieceWriter, type PieceWriter } from '../../../events/answer-pieces.ts';
import { createSseDecoder } from '../sse/sse-decoder.ts';
import { encodeSse } from '../sse/sse-encoder.ts';
import type { SseDecoder, SseEvent } from '../sse/sse-event.ts';
import { tokensOfAnswer } from '../upstreams/answer-tokens.ts';
import { cutTokens, noTokenData, type CutDocument, type TokenData } from '../upstreams/token-cut.ts';
import { createChunkTimes } from './chunk-times.ts';
import { harnessHeaders, type PlainHeaders } from './harness-headers.ts';
import { isEmpty, type CallError, type Outcome } from './outcome.ts';
import { failed } from './relay-body.ts';
import { callErrorOf, namingOf, recorded, SSE_HEADERS, type Relay, type RelayInput } from './relay.ts';
import { errorInStream, sendReply, told, type Told } from './reply.ts';
import { Stopped } from './stopped.ts';

export function createStreamRelay(input: RelayInput): Relay {
  const relay = new StreamRelay(input);
  relay.begin();
  return relay;
}

class StreamRelay implements Relay {
  readonly #input: RelayInput;
  readonly #decoder: SseDecoder;
  readonly #fold: AnswerFold;
  readonly #tokens: TokenData = noTokenData();
  readonly #times = createChunkTimes();
  readonly #told: PieceWriter;
  #sinceStart = 0;
  readonly #naming: ReturnType<typeof namingOf>;
  /** Only where the dialects differ. */
  readonly #writer: StreamWriter | null;
  readonly #own: PlainHeaders;
  #firstToken: number | null = null;
  #pieces: Uint8Array[] = [];
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #isHolding = false;
  #error: CallError | null = null;
  #isOver = false;
  #lastJson: Json = null;

  constructor(input: RelayInput) {
    const { ports, sent, call, headers, marks } = input;
    this.#input = input;
    this.#told = createPieceWriter({ maxBytes: ports.limits.answerBytes });
    this.#decoder = createSseDecoder({ maxEventBytes: ports.limits.eventBytes });
    this.#fold = sent.outbound.dialect.createFold(sent.outbound.ask.n);
    this.#naming = namingOf(ports.clock, ports.newId);
    this.#writer = sent.outbound.isTranslated ? call.inbound.dialect.createWriter(call.inbound.ask, this.#naming) : null;
    this.#own = { ...harnessHeaders(headers), ...(this.#writer === null ? {} : SSE_HEADERS), ...marks };
  }

  begin(): void {
    const { out, exchange, sent } = this.#input;
    out.onDrain = () => exchange.resume();
    out.onGone = (reason) => {
      if (reason === 'stalled') exchange.abort(new Stopped('client_stalled', 'the harness read nothing of its stream for too long'));
      else if (sent.upstream.settings.stopUpstreamOnDisconnect)
        exchange.abort(new Stopped('cancelled', 'the harness left before the stream ended'));
      else exchange.resume();
    };
    if (!out.isStarted) out.head(this.#input.status, this.#own);
  }

  onChunk(chunk: Buffer): boolean {
    if (this.#isOver) return true;
    this.#times.note(this.#input.ports.clock.monotonicMs());
    this.#sinceStart = this.#input.ports.clock.nowMicros() - this.#input.call.start;
    for (const event of this.#decoder.push(chunk)) if (!this.#take(event)) break;
    return this.#flush();
  }

  onEnd(): void {
    if (this.#isOver) return;
    const rest = this.#decoder.end();
    if (rest !== null) this.#take(rest);
    this.#flush();
    if (!this.#isOver) this.#conclude(this.#error ?? this.#verdict());
  }

  onError(error: Error): void {
    if (this.#isOver) return;
    const state = this.#fold.state();
    // all was said, and the connection broke only then
    if (state.finished && state.ended && !('callError' in error)) return this.#conclude(this.#error ?? this.#verdict());
    this.#conclude(callErrorOf(error));
  }

  /** False when nothing more is to be read. */
  #take(event: SseEvent): boolean {
    if (event.kind === 'comment') {
      if (this.#writer === null) this.#pass(event.raw);
      return true;
    }
    if (event.kind === 'broken')
      return this.#malformed(event, event.problem?.code ?? 'malformed_stream', event.problem?.message ?? 'the stream is malformed');
    const { outbound } = this.#input.sent;
    const before = this.#tokens;
    const cut = outbound.readsTokens ? cutTokens(event.data, outbound.unwanted, before) : null;
    const step = this.#fold.add(cut === null || cut.bare === event.data ? event : { ...event, data: cut.bare });
    if (!step.ok) return this.#malformed(event, 'malformed_stream', step.error.message);
    this.#watch(step.value, cut?.added ?? 0);
    if (step.value.terminal) this.#isHolding = true;
    if (this.#writer === null) this.#passEvent(event, cut, step.value);
    else return this.#translate(step.value);
    return true;
  }

  #watch({ json, deltas }: FoldStep, added: number): void {
    if (json !== null) {
      this.#lastJson = json;
      this.#input.versions.onDocument(json, onlyChoice(json), added);
    }
    if (this.#firstToken !== null) return;
    if (
      added > 0 ||
      deltas.some(
        ({ type }) => type === 'text' || type === 'reasoning' || type === 'refusal' || type === 'tool_call' || type === 'tool_arguments',
      )
    ) {
      this.#firstToken = this.#input.ports.clock.nowMicros();
    }
  }

  #passEvent(event: SseEvent, cut: CutDocument | null, { json }: FoldStep): void {
    const { unwanted } = this.#input.sent.outbound;
    if (unwanted.usage && isUsageOnly(json)) return;
    const shown = cut?.shown ?? event.data;
    if (shown === event.data) return this.#pass(event.raw);
    const isBare = event.name === null && event.id === null && event.retry === null;
    this.#pass(isBare ? encodeSse({ name: null, data: shown }) : spliced(event, shown));
  }

  #translate({ deltas }: FoldStep): boolean {
    for (const delta of deltas) {
      const made = (this.#writer as StreamWriter).write(delta);
      if (!made.ok) {
        this.#stop({ type: made.error.code, message: made.error.message });
        return false;
      }
      for (const frame of made.value) {
        if (frame.terminal) this.#isHolding = true;
        this.#pass(encodeSse(frame));
      }
    }
    return true;
  }

  #pass(bytes: Uint8Array): void {
    if (!this.#isHolding) {
      this.#tell(bytes);
      return;
    }
    this.#heldBytes += bytes.length;
    this.#held.push(bytes);
    const limit = this.#input.ports.limits.heldBytes;
    if (this.#heldBytes > limit) this.#stop({ type: 'malformed_stream', message: `more than ${limit} bytes follow the end of the answer` });
  }

  #tell(bytes: Uint8Array): void {
    this.#pieces.push(bytes);
    this.#told.add(bytes, this.#sinceStart);
  }

  #flush(): boolean {
    const { out } = this.#input;
    if (this.#pieces.length === 0) return true;
    const bytes = this.#pieces.length === 1 ? (this.#pieces[0] as Uint8Array) : Buffer.concat(this.#pieces);
    this.#pieces = [];
    return out.write(bytes);
  }

  /** The harness sees what the upstream sent, and then that it breaks off. */
  #malformed(event: SseEvent, type: string, message: string): false {
    if (this.#writer === null && !this.#isHolding) this.#tell(event.raw);
    this.#stop({ type: type === 'sse_truncated' ? 'stream_truncated' : type, message });
    return false;
  }

  #stop(error: CallError): void {
    this.#error ??= error;
    this.#flush();
    this.#input.exchange.abort(new Stopped(this.#error.type, this.#error.message));
    if (!this.#isOver) this.#conclude(this.#error);
  }

  /** What the end of the stream means: null = a whole answer. */
  #verdict(): CallError | null {
    const { error, finished } = this.#fold.state();
    if (error !== null) return { type: 'engine_error', message: error.message, ...(error.status !== null && { statusCode: error.status }) };
    if (!finished) return { type: 'stream_truncated', message: 'the stream ended before the answer did' };
    if (this.#input.call.inbound.endpoint.nodes === 'messages' && isEmpty(this.#fold.answer()))
      return { type: 'empty_answer', message: 'the model said nothing' };
    return null;
  }

  #conclude(error: CallError | null): void {
    this.#isOver = true;
    void this.#finish(error);
  }

  async #finish(error: CallError | null): Promise<void> {
    const { call, out, marks } = this.#input;
    const { dialect, endpoint } = call.inbound;
    const isWhole = error === null || error.type === 'empty_answer' || error.type === 'engine_error';
    const end = isWhole && this.#writer !== null ? this.#writer.end().map(encodeSse) : [];
    const outcome = this.#outcome(error, this.#toldAtEnd(error, isWhole ? [...this.#held, ...end] : []));
    const responseId = endpoint.dialect === 'openai.responses' ? (this.#naming.responseId() ?? outcome.answer?.id ?? null) : null;
    const failure = await recorded(this.#input, outcome, responseId);
    if (failure !== null) {
      sendReply(out, dialect, { kind: 'error', status: failure.status, code: failure.code, message: failure.message, headers: marks });
      return this.#input.settle(failed(failure.status));
    }
    if (isWhole) out.end(Buffer.concat([...this.#held, ...end]));
    else sendReply(out, dialect, { kind: 'error', status: 502, code: error.type, message: error.message, headers: marks });
    const isReplayable = error === null || error.type === 'empty_answer';
    this.#input.settle({ isReplayable, status: this.#input.status, headers: this.#own, body: null, answer: outcome.answer });
  }

  #toldAtEnd(error: CallError | null, last: readonly Uint8Array[]): Told {
    const { call, ports, status, out } = this.#input;
    const now = ports.clock.nowMicros() - call.start;
    for (const bytes of last) this.#told.add(bytes, now);
    const isWhole = error === null || error.type === 'empty_answer' || error.type === 'engine_error';
    const hasLeft = error?.type === 'cancelled' || error?.type === 'client_stalled';
    if (!isWhole && !hasLeft)
      this.#told.add(errorInStream(call.inbound.dialect, { status: 502, code: error.type, message: error.message }), now);
    return told(out.begun ?? { status, headers: this.#own }, this.#told, isWhole ? 'complete' : hasLeft ? 'left' : 'broken');
  }

  #outcome(error: CallError | null, told: Told): Outcome {
    const { call, status, ports, versions, out, sent } = this.#input;
    const { scope } = call.trace;
    const answer = this.#fold.answer();
    if (isObject(this.#lastJson)) tokensOfAnswer(call.inbound, this.#lastJson, this.#tokens);
    const written = sent.outbound.dialect.writeAnswer(answer, sent.outbound.ask, {
      newId: () => answer.id,
      nowSeconds: () => answer.created,
    });
    const hasSaid = answer.choices.length > 0 || this.#tokens.choices.size > 0;
    return {
      status,
      answer: hasSaid || error === null ? answer : null,
      tokens: sent.outbound.readsTokens ? this.#tokens : null,
      error,
      firstToken: this.#firstToken,
      end: ports.clock.nowMicros(),
      chunks: this.#times.summary(),
      versions: versions.versions({ start: call.published, end: ports.policies.at(scope.project, scope.run) }),
      response: hasSaid ? (written.ok ? written.value : plainAnswer(answer)) : undefined,
      told,
      flags: out.isGone && error === null ? ['harness_left'] : [],
    };
  }
}

/** Where the dialect has no body for a streamed answer. */
function plainAnswer({ id, model, choices }: Answer): Json {
  return { id, model, choices: choices.map(({ index, message, finishReason }) => ({ index, message, finish_reason: finishReason })) };
}

/** The index of the one choice that a chunk is about; null when it is about several or none. */
function onlyChoice(json: Json): number | null {
  const choices = isObject(json) ? json['choices'] : undefined;
  if (!isList(choices) || choices.length !== 1 || !isObject(choices[0])) return null;
  const { index } = choices[0] as { index?: Json };
  return typeof index === 'number' ? index : 0;
}

/** The chunk that engines add at the end when usage is asked for. */
function isUsageOnly(json: Json): boolean {
  return isObject(json) && isList(json['choices']) && json['choices'].length === 0 && isObject(json['usage']);
}

/** The event's own bytes with other data, where it has more fields than data. */
function spliced(event: SseEvent, data: string): Uint8Array {
  const text = Buffer.from(event.raw).toString('utf8');
  const at = text.indexOf(event.data);
  return at < 0 ? encodeSse({ name: event.name, data }) : Buffer.from(text.slice(0, at) + data + text.slice(at + event.data.length));
}
