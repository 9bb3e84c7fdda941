/** `POST /v1/completions` (a prompt as text or ids) and `POST /v1/embeddings`. */
import { z } from 'zod';
import { sendJson, sendStream, type Call, type Frame } from './answer.ts';
import { bodyError, completionsSchema, samplingOf, unknownField, type CompletionsBody } from './ask-schema.ts';
import { encodeMarked } from './chat-template.ts';
import { hex, mix, type Completion } from './completion.ts';
import { openaiError, openaiStreamError } from './errors.ts';
import { findModel, generate, hashIds, shownOf, type Generation, type Shown } from './generation.ts';
import { decode } from './tokenizer.ts';
import { versionFields, versionHeaders } from './version.ts';

export async function completionsRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const { engine } = call;
  const parsed = completionsSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const unknown = engine.kind === 'openai' ? unknownField(raw) : undefined;
  if (unknown !== undefined) return openaiError(call, { status: 400, message: `Unrecognized request argument supplied: ${unknown}` });
  const body = parsed.data;
  call.seen.stream = body.stream === true;
  const generation = generate(call, {
    ...samplingOf(body),
    maxTokens: body.max_tokens ?? 16,
    messages: null,
    promptIds: typeof body.prompt === 'string' ? encodeMarked(engine.tokenizer, body.prompt) : body.prompt,
    tools: [],
    toolChoice: 'none',
    parallelToolCalls: false,
    topLogprobs: body.logprobs ?? 0,
    thinks: false,
  });
  if ('status' in generation) return openaiError(call, generation);
  const answer: Answer = {
    call,
    body,
    generation,
    shown: shownOf(call, generation),
    id: `cmpl-${hex(engine.seed)}${hex(call.seen.n)}`,
    withIds: engine.kind === 'vllm' && body.return_token_ids === true,
  };
  const headers = versionHeaders(engine, generation);
  if (body.stream === true) return sendStream(call, completionFrames(answer), openaiStreamError, headers);
  const choices = generation.completions.map((c, i) => choiceOf(answer, i, 0, c.ids.length));
  return sendJson(call, 200, { ...headOf(answer), choices, usage: usageOf(answer), ...versionFields(engine, generation) }, headers);
}

type Answer = {
  readonly call: Call;
  readonly body: CompletionsBody;
  readonly generation: Generation;
  readonly shown: Shown;
  readonly id: string;
  readonly withIds: boolean;
};

function* completionFrames(answer: Answer): Generator<Frame> {
  const { generation, call, body } = answer;
  const step = call.engine.pace.streamInterval;
  const longest = Math.max(...generation.completions.map((c) => c.ids.length));
  for (let from = 0; from < longest; from += step) {
    for (const [i, { ids }] of generation.completions.entries()) {
      if (from >= ids.length) continue;
      const to = Math.min(from + step, ids.length);
      const text = answer.shown.write({
        ...headOf(answer),
        choices: [choiceOf(answer, i, from, to)],
        ...versionFields(call.engine, generation, i, from),
      });
      yield { text: `data: ${text}\n\n`, tokens: to - from, last: to === ids.length };
    }
  }
  if (body.stream_options?.include_usage === true) {
    yield { text: `data: ${answer.shown.write({ ...headOf(answer), choices: [], usage: usageOf(answer) })}\n\n`, tokens: 0 };
  }
  yield { text: 'data: [DONE]\n\n', tokens: 0, last: true };
}

function headOf({ id, call, body }: Answer): Readonly<Record<string, unknown>> {
  return { id, object: 'text_completion', created: Math.floor(call.seen.time / 1e6), model: body.model };
}

function usageOf({ shown: { usage } }: Answer): unknown {
  return {
    prompt_tokens: usage.promptTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    completion_tokens: usage.completionTokens,
  };
}

function choiceOf(answer: Answer, index: number, from: number, to: number): unknown {
  const { call, generation, shown, body, withIds } = answer;
  const completion = generation.completions[index] as Completion;
  const choice = shown.choices[index];
  const done = to === completion.ids.length;
  const text = completion.pieces
    .slice(from, to)
    .map((p) => p.content ?? '')
    .join('');
  const tokenText = (id: number): string =>
    body.return_tokens_as_token_ids === true ? `token_id:${id}` : decode(call.engine.tokenizer, [id]);
  const values = body.logprobs == null ? null : choice?.logprobs?.slice(from, to);
  return {
    index,
    text: body.echo === true && from === 0 ? decode(call.engine.tokenizer, generation.promptIds) + text : text,
    logprobs:
      values == null
        ? null
        : {
            tokens: values.map((_, i) => tokenText(completion.ids[from + i] as number)),
            token_logprobs: values,
            top_logprobs: values.map((_, i) =>
              Object.fromEntries((completion.alternatives[from + i] ?? []).map((a) => [tokenText(a.id), a.logprob])),
            ),
            text_offset: values.map(() => 0),
          },
    finish_reason: done ? completion.finishReason : null,
    ...(call.engine.kind === 'vllm' ? { stop_reason: done ? completion.stopReason : null, prompt_logprobs: promptLogprobs(answer) } : {}),
    ...(withIds && choice?.ids != null ? { token_ids: choice.ids.slice(from, to) } : {}),
    ...(withIds && from === 0 && shown.promptIds !== null ? { prompt_token_ids: shown.promptIds } : {}),
  };
}

/** As vLLM: null for the first id, then for each a dictionary with its own value and, where it is another, the likeliest one. */
function promptLogprobs({ body, generation }: Answer): unknown {
  if (body.prompt_logprobs == null) return null;
  const { promptIds } = generation;
  return Array.from(promptIds, (id, i) => {
    if (i === 0) return null;
    const logprob = promptLogprob(promptIds, i);
    const other = (id + 7919) % 1000;
    const own = { logprob, rank: 2, decoded_token: '' };
    return {
      [id]: own,
      ...(body.prompt_logprobs === 0 || other === id ? {} : { [other]: { logprob: logprob / 2, rank: 1, decoded_token: '' } }),
    };
  });
}

/** Of the id at place `i` after the three before it: the same tokens give the same values. */
export function promptLogprob(ids: Uint32Array, i: number): number {
  let state = 0;
  for (let k = Math.max(0, i - 3); k <= i; k++) state = mix(state, ids[k] as number);
  return Math.fround(-(state / 2 ** 32) * 3 - 0.001);
}

const embeddingsSchema = z.looseObject({
  model: z.string(),
  input: z.union([z.string(), z.array(z.string()).min(1), z.array(z.int()).min(1), z.array(z.array(z.int()).min(1)).min(1)]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.int().min(1).max(4096).nullish(),
});

export function embeddingsRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const { engine } = call;
  const parsed = embeddingsSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const body = parsed.data;
  const model = findModel(engine, body.model);
  if ('status' in model) return openaiError(call, model);
  const inputs = typeof body.input === 'string' ? [body.input] : isIds(body.input) ? [body.input] : body.input;
  const ids = inputs.map((input) => (typeof input === 'string' ? engine.tokenizer.encode(input) : input));
  const data = ids.map((each, index) => {
    const vector = vectorOf(hashIds(each), body.dimensions ?? 64);
    const embedding = body.encoding_format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector);
    return { object: 'embedding', index, embedding };
  });
  const tokens = ids.reduce((sum, each) => sum + each.length, 0);
  return sendJson(call, 200, { object: 'list', data, model: body.model, usage: { prompt_tokens: tokens, total_tokens: tokens } });
}

function isIds(input: readonly unknown[]): input is number[] {
  return typeof input[0] === 'number';
}

/** Of length one. */
function vectorOf(hash: number, dimensions: number): Float32Array {
  const raw = Array.from({ length: dimensions }, (_, i) => mix(hash, i) / 2 ** 31 - 1);
  const norm = Math.hypot(...raw);
  return Float32Array.from(raw, (x) => x / norm);
}
