/**
 * Log-probabilities of given token ids under a teacher: the ids are its prompt, verbatim, and it is asked what it would have given each of them. vLLM answers by
 * `prompt_logprobs` (as the prime-rl teacher is asked), SGLang by `input_token_logprobs`. Scored at temperature 1, top-p 1.
 */
import { isMap } from '../../events/fields.ts';
import { failed, type Answer, type AskOptions, type Scored, type ScoringUpstream, type ScoringUpstreams } from './upstream.ts';

/** One value per id; the first has no context and is NaN. `version`: the weights that answered, where the answer says so. */
export type TeacherScores = { readonly logprobs: Float32Array; readonly version: string | null };

/** vLLM clamps minus infinity to this. */
const MISSING = -9999;
/** An answer has a dictionary per id, and perhaps a most likely alternative beside it. */
const BYTES_PER_ID = 512;
const BYTES_BESIDE = 1024 * 1024;

type Ask = {
  readonly upstreams: ScoringUpstreams;
  readonly upstream: ScoringUpstream;
  readonly model: string;
  readonly signal: AbortSignal;
};

export async function teacherScores(ids: Uint32Array, ask: Ask): Promise<Scored<TeacherScores>> {
  const { upstreams, upstream, model, signal } = ask;
  const options: AskOptions = { maxBytes: BYTES_BESIDE + ids.length * BYTES_PER_ID, signal };
  const list = `[${ids.join(',')}]`;
  if (upstream.kind === 'sglang') {
    const body = `{"input_ids":${list},"sampling_params":{"max_new_tokens":1,"temperature":1},"return_logprob":true,"logprob_start_len":0}`;
    const answer = await upstreams.ask(upstream, 'root', '/generate', body, options);
    return answer.ok ? read(answer.value, upstream, ids, sglangPairs(answer.value.body)) : answer;
  }
  if (upstream.kind === 'openai' || upstream.kind === 'anthropic') {
    return failed(
      'teacher_cannot_score',
      `upstream ${upstream.name} is of kind ${upstream.kind}, which does not score given tokens: use vllm or sglang`,
    );
  }
  const body = `{"model":${JSON.stringify(model)},"prompt":${list},"max_tokens":1,"temperature":1,"top_p":1,"prompt_logprobs":1}`;
  const answer = await upstreams.ask(upstream, 'api', '/completions', body, options);
  return answer.ok ? read(answer.value, upstream, ids, vllmPairs(answer.value.body, ids)) : answer;
}

/** Ids of one system message with `text`, without a generation prompt. */
export async function hintIds(text: string, { upstreams, upstream, model, signal }: Ask): Promise<Scored<Uint32Array>> {
  if (upstream.kind !== 'vllm') {
    return failed(
      'teacher_cannot_tokenize',
      `upstream ${upstream.name} is of kind ${upstream.kind}; a hint is made of tokens by vllm's /tokenize`,
    );
  }
  const body = JSON.stringify({ model, messages: [{ role: 'system', content: text }], add_generation_prompt: false });
  const answer = await upstreams.ask(upstream, 'root', '/tokenize', body, { maxBytes: BYTES_BESIDE + text.length * 64, signal });
  if (!answer.ok) return answer;
  const { tokens } = answer.value.body;
  const isIds = Array.isArray(tokens) && tokens.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31);
  return isIds
    ? { ok: true, value: Uint32Array.from(tokens as number[]) }
    : failed('teacher_answer', `upstream ${upstream.name} gave no token ids for the hint`);
}

type Pair = { readonly id: number; readonly logprob: unknown } | null;

/** `[null, {"<id>": {logprob, …}, …}, …]`: of each place the value of the id that stands there. */
function vllmPairs(body: Answer['body'], ids: Uint32Array): readonly Pair[] | null {
  const choice: unknown = Array.isArray(body['choices']) ? body['choices'][0] : null;
  const list: unknown = (isMap(choice) ? choice['prompt_logprobs'] : null) ?? body['prompt_logprobs'];
  if (!Array.isArray(list)) return null;
  return list.map((entry: unknown, i): Pair => {
    const id = ids[i] ?? -1;
    const own = isMap(entry) ? entry[String(id)] : null;
    return isMap(own) ? { id, logprob: own['logprob'] } : null;
  });
}

/** `[[null, id, text], [logprob, id, text], …]`. */
function sglangPairs(body: Answer['body']): readonly Pair[] | null {
  const meta = body['meta_info'];
  const list: unknown = isMap(meta) ? meta['input_token_logprobs'] : null;
  if (!Array.isArray(list)) return null;
  return list.map((entry: unknown): Pair =>
    Array.isArray(entry) && typeof entry[1] === 'number' ? { logprob: entry[0], id: entry[1] } : null,
  );
}

function read(
  { body, headers }: Answer,
  upstream: ScoringUpstream,
  ids: Uint32Array,
  pairs: readonly Pair[] | null,
): Scored<TeacherScores> {
  const { name } = upstream;
  if (pairs === null) return failed('teacher_gives_no_logprobs', `upstream ${name} answered without log-probabilities of the prompt`);
  if (pairs.length !== ids.length) return failed('teacher_answer', `upstream ${name} scored ${pairs.length} tokens of ${ids.length}`);
  const logprobs = new Float32Array(ids.length).fill(Number.NaN);
  for (let i = 1; i < ids.length; i++) {
    const pair = pairs[i];
    if (pair === null || pair === undefined || pair.id !== ids[i]) {
      return failed('teacher_answer', `upstream ${name} gave no value for token ${ids[i]} at place ${i}: its vocabulary is another`);
    }
    if (typeof pair.logprob !== 'number' || !Number.isFinite(pair.logprob) || pair.logprob <= MISSING) {
      return failed('teacher_non_finite', `upstream ${name} gave ${String(pair.logprob)} for token ${ids[i]} at place ${i}`);
    }
    logprobs[i] = pair.logprob;
  }
  return { ok: true, value: { logprobs, version: versionIn(body, headers, upstream) } };
}

function versionIn(body: Answer['body'], headers: Headers, { policyVersion: { header, field } }: ScoringUpstream): string | null {
  const told: unknown = header === undefined ? (field === undefined ? null : fieldOf(body, field)) : headers.get(header);
  return typeof told === 'string' || typeof told === 'number' ? String(told) : null;
}

/** A field of the body or of its first choice; dots go down. */
function fieldOf(body: Answer['body'], path: string): unknown {
  const choices = body['choices'];
  for (const from of [body, Array.isArray(choices) ? (choices[0] as unknown) : null]) {
    let value: unknown = from;
    for (const name of path.split('.')) value = isMap(value) ? value[name] : undefined;
    if (value !== undefined && value !== null) return value;
  }
  return null;
}
