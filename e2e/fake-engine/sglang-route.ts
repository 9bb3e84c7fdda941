/** SGLang's native `POST /generate`: text or ids in; ids and log-probabilities in `meta_info`; a stream repeats all so far in each event. */
import { z } from 'zod';
import { sendJson, sendStream, type Call, type Frame } from './answer.ts';
import { bodyError } from './ask-schema.ts';
import { encodeMarked } from './chat-template.ts';
import { hex, mix, type Completion } from './completion.ts';
import { openaiError, openaiStreamError } from './errors.ts';
import { generate, shownOf, type Generation, type Shown } from './generation.ts';

const sglangSchema = z.looseObject({
  text: z.string().nullish(),
  input_ids: z.array(z.int().min(0)).min(1).nullish(),
  sampling_params: z
    .looseObject({
      n: z.int().min(1).nullish(),
      max_new_tokens: z.int().min(1).nullish(),
      stop: z.union([z.string(), z.array(z.string())]).nullish(),
      stop_token_ids: z.array(z.int()).nullish(),
      temperature: z.number().min(0).nullish(),
      sampling_seed: z.int().nullish(),
    })
    .prefault({}),
  return_logprob: z.boolean().nullish(),
  logprob_start_len: z.int().nullish(),
  top_logprobs_num: z.int().min(0).nullish(),
  return_text_in_logprobs: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  rid: z.string().nullish(),
});
type Body = z.infer<typeof sglangSchema>;

export async function sglangRoute(call: Call, raw: Readonly<Record<string, unknown>>): Promise<void> {
  const { engine } = call;
  const parsed = sglangSchema.safeParse(raw);
  if (!parsed.success) return openaiError(call, { status: 400, ...bodyError(parsed.error) });
  const body = parsed.data;
  if ((body.text == null) === (body.input_ids == null)) {
    return openaiError(call, { status: 400, message: 'Either text or input_ids should be provided.' });
  }
  const sampling = body.sampling_params;
  call.seen.stream = body.stream === true;
  const generation = generate(call, {
    model: engine.models[0]?.id as string,
    messages: null,
    promptIds: body.input_ids ?? encodeMarked(engine.tokenizer, body.text as string),
    tools: [],
    toolChoice: 'auto',
    parallelToolCalls: true,
    n: sampling.n ?? 1,
    maxTokens: sampling.max_new_tokens ?? 128,
    stop: typeof sampling.stop === 'string' ? [sampling.stop] : (sampling.stop ?? []),
    stopTokenIds: (sampling.stop_token_ids ?? []).filter((id) => id !== engine.tokenizer.markers.imEnd),
    temperature: sampling.temperature ?? 1,
    seed: sampling.sampling_seed ?? null,
    topLogprobs: body.return_logprob === true ? (body.top_logprobs_num ?? 0) : 0,
    thinks: null,
  });
  if ('status' in generation) return openaiError(call, generation);
  const answer: Answer = { call, body, generation, shown: shownOf(call, generation) };
  if (body.stream === true) return sendStream(call, sglangFrames(answer), openaiStreamError);
  const outputs = generation.completions.map((c, i) => outputOf(answer, i, c.ids.length));
  return sendJson(call, 200, outputs.length === 1 ? outputs[0] : outputs);
}

type Answer = { readonly call: Call; readonly body: Body; readonly generation: Generation; readonly shown: Shown };

function* sglangFrames(answer: Answer): Generator<Frame> {
  const { completions } = answer.generation;
  const step = answer.call.engine.pace.streamInterval;
  const longest = Math.max(...completions.map((c) => c.ids.length));
  for (let from = 0; from < longest; from += step) {
    for (const [i, { ids }] of completions.entries()) {
      if (from >= ids.length) continue;
      const to = Math.min(from + step, ids.length);
      const output = outputOf(answer, i, to);
      const text = answer.shown.write(completions.length === 1 ? output : { index: i, ...output });
      yield { text: `data: ${text}\n\n`, tokens: to - from, last: to === ids.length };
    }
  }
  yield { text: 'data: [DONE]\n\n', tokens: 0, last: true };
}

/** Everything up to place `to`. */
function outputOf(answer: Answer, index: number, to: number): Readonly<Record<string, unknown>> {
  const { call, body, generation, shown } = answer;
  const completion = generation.completions[index] as Completion;
  const choice = shown.choices[index];
  const done = to >= completion.ids.length;
  return {
    text: completion.pieces
      .slice(0, to)
      .map((p) => p.content ?? '')
      .join(''),
    ...(choice?.ids == null ? {} : { output_ids: choice.ids.slice(0, to) }),
    meta_info: {
      id: body.rid ?? hex(mix(call.seen.n, index)),
      finish_reason: done ? finishOf(call, completion) : null,
      prompt_tokens: shown.usage.promptTokens,
      completion_tokens: done ? shown.usage.completionTokens : to,
      cached_tokens: 0,
      weight_version: String(versionBefore(completion, to)),
      e2e_latency: 0,
      ...(body.return_logprob === true ? logprobFields(answer, index, to) : {}),
    },
  };
}

function logprobFields({ body, generation, shown }: Answer, index: number, to: number): Readonly<Record<string, unknown>> {
  const completion = generation.completions[index] as Completion;
  const values = shown.choices[index]?.logprobs;
  const start = body.logprob_start_len ?? -1;
  const input = start < 0 ? [] : (shown.promptIds ?? []).slice(start);
  return {
    input_token_logprobs: input.map((id, i) => [i === 0 ? null : Math.fround(-(mix(id, i) / 2 ** 32)), id, null]),
    ...(values == null ? {} : { output_token_logprobs: values.slice(0, to).map((logprob, i) => [logprob, completion.ids[i], null]) }),
    ...(completion.alternatives.length === 0
      ? {}
      : {
          input_top_logprobs: input.map(() => null),
          output_top_logprobs: completion.alternatives.slice(0, to).map((all) => all.map((a) => [a.logprob, a.id, null])),
        }),
  };
}

function finishOf(call: Call, completion: Completion): unknown {
  if (completion.finishReason === 'length') return { type: 'length', length: completion.ids.length };
  return { type: 'stop', matched: completion.stopReason ?? call.engine.tokenizer.markers.imEnd };
}

/** The version that sampled the id before place `to`. */
function versionBefore({ policyRuns }: Completion, to: number): number {
  let end = 0;
  return policyRuns.find((run) => (end += run.length) >= to)?.version ?? policyRuns.at(-1)?.version ?? 0;
}
