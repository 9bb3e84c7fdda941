/**
 * The native routes that take token ids: vLLM's `POST /inference/v1/generate` and SGLang's `POST /generate`. Neither has messages; what counts are the
 * ids, which the adapter of the engine reads. Relayed to engines of the same kind only.
 */
import { fail, ok, type Result } from '../../../base/result.ts';
import { finishOf, headOf } from './chat-answer.ts';
import type { Ask, Dialect, DialectName, Json, JsonObject, Usage } from './dialect.ts';
import { openaiErrorBody } from './error-bodies.ts';
import { UNFINISHED, type Finish } from './finish.ts';
import { countOf, isList, isObject, textOf, without } from './json.ts';
import { notWritten, refusingWriter, writeOwnAsk } from './own-engine.ts';
import { answerOfChunk, createTextFold, type TextChunk } from './text-fold.ts';
import { readChatUsage } from './usage.ts';

const READ: ReadonlySet<string> = new Set(['model', 'stream', 'sampling_params']);
/** SGLang's word for a parameter, where it is not the chat's. */
const SGLANG_WORDS: Readonly<Record<string, string>> = { max_tokens: 'max_new_tokens', min_tokens: 'min_new_tokens' };

function renamed(sampling: JsonObject, words: Readonly<Record<string, string>>): JsonObject {
  return Object.fromEntries(
    Object.entries(sampling).map(([key, value]) => [Object.hasOwn(words, key) ? (words[key] as string) : key, value]),
  );
}

function parseAsk(body: JsonObject, dialect: DialectName, words: Readonly<Record<string, string>>): Result<Ask> {
  const params = body['sampling_params'];
  const model = body['model'];
  if (model !== undefined && model !== null && typeof model !== 'string') return fail('wrong_type', 'model must be a text', 'model');
  // SGLang takes a list of parameters for a batch: that is not interpreted
  const sampling = isObject(params)
    ? renamed(params, Object.fromEntries(Object.entries(words).map(([ours, theirs]) => [theirs, ours])))
    : {};
  const logprobs = body['return_logprob'] === true || sampling['logprobs'] === true || countOf(sampling['logprobs']) !== null;
  return ok({
    dialect,
    model: model ?? '',
    stream: body['stream'] === true,
    n: countOf(sampling['n']) ?? 1,
    messages: [],
    instructions: 0,
    tools: [],
    toolChoice: undefined,
    sampling,
    wants: {
      logprobs,
      topLogprobs: countOf(sampling['logprobs']) ?? countOf(body['top_logprobs_num']),
      tokenIds: true,
      usageInStream: true,
    },
    previousResponseId: null,
    rest: isObject(params) || params === undefined ? without(body, READ) : { ...without(body, READ), sampling_params: params },
  });
}

function writeAsk(ask: Ask, dialect: DialectName, words: Readonly<Record<string, string>>): Result<JsonObject> {
  const sampling = renamed(ask.sampling, words);
  return writeOwnAsk(ask, dialect, Object.keys(sampling).length === 0 ? {} : { sampling_params: sampling });
}

function readVllm(json: JsonObject): Result<TextChunk> {
  const { choices } = json;
  if (!isList(choices) || !choices.every(isObject)) return fail('malformed_stream', 'choices must be a list of objects', 'choices');
  const pieces = choices.map((choice, i) => ({
    index: countOf(choice['index']) ?? i,
    text: textOf(choice['text']),
    isWhole: false,
    finish: finishOf(choice),
  }));
  return ok({
    head: { ...headOf(json), id: textOf(json['request_id']) ?? textOf(json['id']) ?? '' },
    pieces,
    usage: readChatUsage(json['usage']),
  });
}

/** Streams tell the whole text each time. */
function readSglang(json: JsonObject): Result<TextChunk> {
  const info = isObject(json['meta_info']) ? json['meta_info'] : null;
  if (info === null) return fail('malformed_stream', 'the answer has no meta_info', 'meta_info');
  const piece = {
    index: countOf(json['index']) ?? 0,
    text: textOf(json['text']),
    isWhole: true,
    finish: sglangFinish(info['finish_reason']),
  };
  return ok({ head: { id: textOf(info['id']) ?? '', model: '', created: 0 }, pieces: [piece], usage: sglangUsage(info) });
}

function sglangFinish(reason: Json | undefined): Finish {
  if (typeof reason === 'string') return { finishReason: reason, nativeFinish: null, stopSequence: null };
  if (!isObject(reason)) return UNFINISHED;
  const { matched } = reason;
  const stopSequence = typeof matched === 'string' || typeof matched === 'number' ? matched : null;
  return { finishReason: textOf(reason['type']), nativeFinish: null, stopSequence };
}

function sglangUsage(info: JsonObject): Usage {
  return {
    promptTokens: countOf(info['prompt_tokens']),
    completionTokens: countOf(info['completion_tokens']),
    cachedTokens: countOf(info['cached_tokens']),
    cacheWriteTokens: null,
    reasoningTokens: countOf(info['reasoning_tokens']),
    cost: null,
  };
}

function nativeDialect(name: DialectName, words: Readonly<Record<string, string>>, read: (json: JsonObject) => Result<TextChunk>): Dialect {
  return {
    name,
    parseAsk: (body) => parseAsk(body, name, words),
    writeAsk: (ask) => writeAsk(ask, name, words),
    parseAnswer: (body) => {
      const chunk = read(body);
      return chunk.ok ? ok(answerOfChunk(chunk.value)) : chunk;
    },
    writeAnswer: () => notWritten(name),
    errorBody: openaiErrorBody,
    createFold: (n) => createTextFold(n, read),
    createWriter: () => refusingWriter(name, openaiErrorBody),
  };
}

export const vllmGenerate: Dialect = nativeDialect('vllm.generate', {}, readVllm);
export const sglangGenerate: Dialect = nativeDialect('sglang.generate', SGLANG_WORDS, readSglang);
