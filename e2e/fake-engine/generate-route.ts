/** vLLM's token-in, token-out `POST /inference/v1/generate`, and `/tokenize` and `/detokenize` beside it, all at the server's root. */
import { z } from 'zod';
import { sendJson, sendStream, type Call, type Frame } from './answer.ts';
import { bodyError, chatMessage, chatSchema } from './ask-schema.ts';
import { encodeMarked, renderPrompt, type Tool } from './chat-template.ts';
import { hex, type Completion } from './completion.ts';
import { openaiError, openaiStreamError } from './errors.ts';
import { findModel, generate, shownOf, type Generation, type Shown } from './generation.ts';
import { decode } from './tokenizer.ts';
import { versionFields, versionHeaders } from './version.ts';

const generateSchema = z.looseObject({
  model: z.string().nullish(),
  token_ids: z.array(z.int().min(0)).min(1),
  sampling_params: z
    .looseObject({
      n: z.int().min(1).nullish(),
      max_tokens: z.int().min(1).nullish(),
      stop: z.union([z.string(), z.array(z.string())]).nullish(),
      stop_token_ids: z.array(z.int()).nullish(),
      temperature: z.number().min(0).nullish(),
      seed: z.int().nullish(),
      logprobs: z.int().min(0).nullish(),
    })
    .prefault({}),
  stream: z.boolean().nullish(),
});

export async function generateRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const { engine } = call;
  const parsed = generateSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const { model, token_ids: promptIds, sampling_params: sampling, stream } = parsed.data;
  call.seen.stream = stream === true;
  const generation = generate(call, {
    model: model ?? (engine.models[0]?.id as string),
    messages: null,
    promptIds,
    tools: [],
    toolChoice: 'auto',
    parallelToolCalls: true,
    n: sampling.n ?? 1,
    maxTokens: sampling.max_tokens ?? null,
    stop: typeof sampling.stop === 'string' ? [sampling.stop] : (sampling.stop ?? []),
    stopTokenIds: (sampling.stop_token_ids ?? []).filter((id) => id !== engine.tokenizer.markers.imEnd),
    temperature: sampling.temperature ?? 1,
    seed: sampling.seed ?? null,
    topLogprobs: sampling.logprobs ?? 0,
    thinks: null,
  });
  if ('status' in generation) return openaiError(call, generation);
  const answer: Answer = {
    id: `${hex(engine.seed)}${hex(call.seen.n)}`,
    generation,
    shown: shownOf(call, generation),
    withLogprobs: sampling.logprobs != null,
  };
  const headers = versionHeaders(engine, generation);
  if (stream === true) return sendStream(call, generateFrames(call, answer), openaiStreamError, headers);
  const choices = generation.completions.map((_, i) => choiceOf(answer, i, 0, Infinity));
  return sendJson(
    call,
    200,
    { request_id: answer.id, choices, prompt_logprobs: null, kv_transfer_params: null, ...versionFields(engine, generation) },
    headers,
  );
}

type Answer = { readonly id: string; readonly generation: Generation; readonly shown: Shown; readonly withLogprobs: boolean };

function* generateFrames(call: Call, answer: Answer): Generator<Frame> {
  const { completions } = answer.generation;
  const step = call.engine.pace.streamInterval;
  const longest = Math.max(...completions.map((c) => c.ids.length));
  for (let from = 0; from < longest; from += step) {
    for (const [i, { ids }] of completions.entries()) {
      if (from >= ids.length) continue;
      const to = Math.min(from + step, ids.length);
      const text = answer.shown.write({
        request_id: answer.id,
        choices: [choiceOf(answer, i, from, to)],
        ...versionFields(call.engine, answer.generation, i, from),
      });
      yield { text: `data: ${text}\n\n`, tokens: to - from, last: to === ids.length };
    }
  }
  yield { text: 'data: [DONE]\n\n', tokens: 0, last: true };
}

/** The token's text is its id, as verifiers checks it. */
function choiceOf({ generation, shown, withLogprobs }: Answer, index: number, from: number, to: number): unknown {
  const completion = generation.completions[index] as Completion;
  const choice = shown.choices[index];
  const done = to >= completion.ids.length;
  const logprobs = choice?.logprobs?.slice(from, to).map((logprob, i) => ({
    token: `token_id:${completion.ids[from + i]}`,
    logprob,
    bytes: null,
    top_logprobs: (completion.alternatives[from + i] ?? []).map((a) => ({ token: `token_id:${a.id}`, logprob: a.logprob, bytes: null })),
  }));
  return {
    index,
    ...(choice?.ids == null ? {} : { token_ids: choice.ids.slice(from, to) }),
    logprobs: withLogprobs && logprobs !== undefined ? { content: logprobs } : null,
    finish_reason: !done ? null : completion.finishReason === 'tool_calls' ? 'stop' : completion.finishReason,
    routed_experts: null,
  };
}

const tokenizeSchema = z.looseObject({
  model: z.string().nullish(),
  prompt: z.string().nullish(),
  messages: chatSchema.shape.messages.nullish(),
  tools: chatSchema.shape.tools,
  add_generation_prompt: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
});

export function tokenizeRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const { engine } = call;
  const parsed = tokenizeSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const body = parsed.data;
  const model = findModel(engine, body.model ?? (engine.models[0]?.id as string));
  if ('status' in model) return openaiError(call, model);
  if (body.messages == null && body.prompt == null) return openaiError(call, { status: 400, message: 'prompt: or messages are needed' });
  const tokens =
    body.messages != null
      ? renderPrompt(
          engine.tokenizer,
          body.messages.map(chatMessage),
          (body.tools ?? []).map((t) => t.function as Tool),
          {
            earlierReasoning: model.earlierReasoning,
            addGenerationPrompt: body.add_generation_prompt ?? true,
            idsPerImage: 4,
          },
        )
      : encodeMarked(engine.tokenizer, body.prompt ?? '');
  const strings = body.return_token_strs === true ? tokens.map((id) => decode(engine.tokenizer, [id])) : null;
  return sendJson(call, 200, { count: tokens.length, max_model_len: model.maxModelLen, tokens, token_strs: strings });
}

export function detokenizeRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const parsed = z.looseObject({ tokens: z.array(z.int().min(0)) }).safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  try {
    return sendJson(call, 200, { prompt: decode(call.engine.tokenizer, parsed.data.tokens) });
  } catch (error) {
    return openaiError(call, { status: 400, message: error instanceof Error ? error.message : 'unknown token id' });
  }
}
