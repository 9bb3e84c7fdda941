/** `POST /v1/chat/completions` with the manners of vLLM, SGLang or OpenAI. */
import { sendJson, sendStream, type Call, type Frame } from './answer.ts';
import { bodyError, chatAsk, chatSchema, unknownField, type ChatBody } from './ask-schema.ts';
import { foldPieces, hex, type Completion, type Piece } from './completion.ts';
import type { Engine } from './engine-state.ts';
import { openaiError, openaiStreamError } from './errors.ts';
import { faultOf } from './faults.ts';
import { generate, shownOf, type Generation, type Shown } from './generation.ts';
import { decode } from './tokenizer.ts';
import { sglangVersion, versionFields, versionHeaders } from './version.ts';

export async function chatRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const { engine } = call;
  const parsed = chatSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const unknown = engine.kind === 'openai' ? unknownField(raw) : undefined;
  if (unknown !== undefined) return openaiError(call, { status: 400, message: `Unrecognized request argument supplied: ${unknown}` });
  const body = parsed.data;
  const asksIds = body.return_token_ids === true || body.return_prompt_token_ids === true || body.return_meta_info === true;
  if (engine.kind === 'sglang' && body.stream === true && asksIds) {
    return openaiError(call, {
      status: 400,
      message: 'return_prompt_token_ids, return_token_ids and return_meta_info are not supported with stream',
    });
  }
  call.seen.stream = body.stream === true;
  const generation = generate(call, chatAsk(body));
  if ('status' in generation) return openaiError(call, generation);
  const answer = chatAnswer(call, body, generation);
  if (body.stream === true) return sendStream(call, chatFrames(answer), openaiStreamError, versionHeaders(engine, generation));
  return sendJson(call, 200, chatBody(answer), versionHeaders(engine, generation));
}

type ChatAnswer = {
  readonly engine: Engine;
  readonly body: ChatBody;
  readonly generation: Generation;
  readonly shown: Shown;
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly withIds: boolean;
  readonly usage: Readonly<Record<string, unknown>> | undefined;
};

function chatAnswer(call: Call, body: ChatBody, generation: Generation): ChatAnswer {
  const { engine, seen } = call;
  const shown = shownOf(call, generation);
  const bent = faultOf(call.faults, 'wrong_usage');
  const usage = {
    prompt_tokens: shown.usage.promptTokens,
    total_tokens: shown.usage.promptTokens + shown.usage.completionTokens,
    completion_tokens: shown.usage.completionTokens,
    ...(engine.kind === 'openai'
      ? {
          prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
          completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
        }
      : { prompt_tokens_details: null }),
  };
  return {
    engine,
    body,
    generation,
    shown,
    id: `chatcmpl-${hex(engine.seed)}${hex(seen.n)}`,
    created: Math.floor(seen.time / 1e6),
    withIds: engine.kind === 'vllm' && body.return_token_ids === true,
    usage: bent !== undefined && bent.promptTokens === undefined && bent.completionTokens === undefined ? undefined : usage,
  };
}

function chatBody(answer: ChatAnswer): unknown {
  const { body, generation, shown, engine } = answer;
  return {
    id: answer.id,
    object: 'chat.completion',
    created: answer.created,
    model: body.model,
    choices: generation.completions.map((completion, i) => ({
      index: completion.index,
      message: {
        role: 'assistant',
        content: completion.message.toolCalls.length > 0 && completion.message.content === '' ? null : completion.message.content,
        refusal: null,
        ...(engine.kind === 'openai'
          ? { annotations: [] }
          : { [engine.reasoningField]: completion.message.reasoning === '' ? null : completion.message.reasoning }),
        ...(completion.message.toolCalls.length === 0
          ? {}
          : {
              tool_calls: completion.message.toolCalls.map((c) => ({
                id: c.id,
                type: 'function',
                function: { name: c.name, arguments: c.arguments },
              })),
            }),
      },
      logprobs: logprobsOf(answer, i, 0, Infinity),
      finish_reason: completion.finishReason,
      ...stopReason(engine, completion),
      ...(answer.withIds && shown.choices[i]?.ids != null ? { token_ids: shown.choices[i].ids } : {}),
      ...(engine.kind === 'sglang' ? sglangFields(answer, i) : {}),
    })),
    ...(answer.usage === undefined ? {} : { usage: answer.usage }),
    ...(engine.kind === 'vllm' ? { service_tier: null, system_fingerprint: null, prompt_logprobs: null, kv_transfer_params: null } : {}),
    ...(answer.withIds && shown.promptIds !== null ? { prompt_token_ids: shown.promptIds } : {}),
    ...(engine.kind === 'sglang' ? sglangVersion(generation) : versionFields(engine, generation)),
  };
}

/** SGLang gives ids per choice, and the raw output of the engine in `meta_info`. */
function sglangFields({ body, shown, generation, id }: ChatAnswer, index: number): Readonly<Record<string, unknown>> {
  const completion = generation.completions[index] as Completion;
  const choice = shown.choices[index];
  const promptIds = (body.return_prompt_token_ids === true || body.return_token_ids === true) && shown.promptIds !== null;
  const logprobs = body.logprobs === true && choice?.logprobs != null;
  return {
    ...(promptIds ? { prompt_token_ids: shown.promptIds } : {}),
    ...(body.return_token_ids === true && choice?.ids != null ? { token_ids: choice.ids } : {}),
    ...(body.return_meta_info === true
      ? {
          meta_info: {
            id,
            prompt_tokens: shown.usage.promptTokens,
            completion_tokens: completion.ids.length,
            weight_version: String(completion.policyRuns.at(-1)?.version ?? 0),
            ...(logprobs ? { output_token_logprobs: choice.logprobs.map((logprob, i) => [logprob, completion.ids[i], null]) } : {}),
          },
        }
      : {}),
  };
}

/** Role chunks first (with the prompt ids, in vLLM), then one chunk per place and choice, then usage when asked for. */
function* chatFrames(answer: ChatAnswer): Generator<Frame> {
  const { generation, shown, engine, body } = answer;
  for (const completion of generation.completions) {
    const choice = { index: completion.index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null };
    yield chunk(answer, [choice], answer.withIds && shown.promptIds !== null ? { prompt_token_ids: shown.promptIds } : {});
  }
  const step = engine.pace.streamInterval;
  const longest = Math.max(...generation.completions.map((c) => c.ids.length));
  let silent = 0;
  for (let from = 0; from < longest; from += step) {
    for (const [i, completion] of generation.completions.entries()) {
      if (from >= completion.ids.length) continue;
      const to = Math.min(from + step, completion.ids.length);
      const delta = deltaOf(completion.pieces.slice(from, to), engine.reasoningField);
      const last = to === completion.ids.length;
      if (!answer.withIds && !last && delta === null) {
        silent += to - from; // scaffold: no client sees a chunk of it
        continue;
      }
      const choice = {
        index: completion.index,
        delta: delta ?? {},
        logprobs: logprobsOf(answer, i, from, to),
        finish_reason: last ? completion.finishReason : null,
        ...(last ? stopReason(engine, completion) : {}),
        ...(answer.withIds && shown.choices[i]?.ids != null ? { token_ids: shown.choices[i].ids.slice(from, to) } : {}),
      };
      const version = engine.kind === 'sglang' ? {} : versionFields(engine, generation, i, from);
      yield { ...chunk(answer, [choice], version), tokens: silent + to - from, last };
      silent = 0;
    }
  }
  if (body.stream_options?.include_usage === true && answer.usage !== undefined) yield chunk(answer, [], { usage: answer.usage });
  yield { text: 'data: [DONE]\n\n', tokens: 0, last: true };
}

function chunk(answer: ChatAnswer, choices: readonly unknown[], more: Readonly<Record<string, unknown>>): Frame {
  const usage = answer.engine.kind === 'openai' && answer.body.stream_options?.include_usage === true ? { usage: null } : {};
  const text = answer.shown.write({
    id: answer.id,
    object: 'chat.completion.chunk',
    created: answer.created,
    model: answer.body.model,
    choices,
    ...usage,
    ...more,
  });
  return { text: `data: ${text}\n\n`, tokens: 0 };
}

function deltaOf(pieces: readonly Piece[], reasoningField: string): Readonly<Record<string, unknown>> | null {
  const { content, reasoning } = foldPieces(pieces.filter((p) => p.call === undefined));
  const calls = pieces.flatMap((p) => (p.call === undefined ? [] : [p.call]));
  if (content === '' && reasoning === '' && calls.length === 0) return null;
  return {
    ...(reasoning === '' ? {} : { [reasoningField]: reasoning }),
    ...(content === '' ? {} : { content }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((c) => ({
            index: c.index,
            ...(c.id === undefined ? {} : { id: c.id, type: 'function' }),
            function: { ...(c.name === undefined ? {} : { name: c.name }), arguments: c.arguments ?? '' },
          })),
        }),
  };
}

function stopReason(engine: Engine, completion: Completion): Readonly<Record<string, unknown>> {
  if (engine.kind === 'vllm') return { stop_reason: completion.stopReason };
  return engine.kind === 'sglang' ? { matched_stop: completion.stopReason ?? engine.tokenizer.markers.imEnd } : {};
}

function logprobsOf(answer: ChatAnswer, choice: number, from: number, to: number): unknown {
  const { body, shown, generation, engine } = answer;
  const values = shown.choices[choice]?.logprobs;
  if (body.logprobs !== true || values == null) return null;
  const completion = generation.completions[choice] as Completion;
  const entry = (id: number, logprob: number | null): Record<string, unknown> => {
    const bytes = engine.tokenizer.bytesOf(id);
    const token = engine.kind === 'vllm' && body.return_tokens_as_token_ids === true ? `token_id:${id}` : decode(engine.tokenizer, [id]);
    return { token, logprob, bytes: Array.from(bytes) };
  };
  return {
    content: values.slice(from, to).map((logprob, i) => {
      const place = from + i;
      const top = completion.alternatives[place] ?? [];
      return { ...entry(completion.ids[place] as number, logprob), top_logprobs: top.map((t) => entry(t.id, t.logprob)) };
    }),
    ...(engine.kind === 'openai' ? { refusal: null } : {}),
  };
}
