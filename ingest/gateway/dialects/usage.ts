/** Token counts of every dialect to the neutral form and back. Neutral prompt counts include what came from, or went into, a cache. */
import type { Json, JsonObject, Usage } from './dialect.ts';
import { compact, countOf, isObject } from './json.ts';

const child = (object: JsonObject, key: string): JsonObject => (isObject(object[key]) ? object[key] : {});
const costOf = (usage: JsonObject): number | null => (typeof usage['cost'] === 'number' ? usage['cost'] : null);
const orZero = (count: number | null): number => count ?? 0;

/** Chat and completions: prompt_tokens includes cached ones already. Null when there is no usage object. */
export function readChatUsage(usage: Json | undefined): Usage | null {
  if (!isObject(usage)) return null;
  const prompt = child(usage, 'prompt_tokens_details');
  return {
    promptTokens: countOf(usage['prompt_tokens']),
    completionTokens: countOf(usage['completion_tokens']),
    cachedTokens: countOf(prompt['cached_tokens']) ?? countOf(usage['prompt_cache_hit_tokens']), // DeepSeek says it at the top
    cacheWriteTokens: countOf(prompt['cache_write_tokens']),
    reasoningTokens: countOf(child(usage, 'completion_tokens_details')['reasoning_tokens']),
    cost: costOf(usage),
  };
}

export function writeChatUsage(usage: Usage): JsonObject {
  const [prompt, completion] = [orZero(usage.promptTokens), orZero(usage.completionTokens)];
  return compact({
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: usage.cachedTokens === null ? undefined : { cached_tokens: usage.cachedTokens },
    completion_tokens_details: usage.reasoningTokens === null ? undefined : { reasoning_tokens: usage.reasoningTokens },
  });
}

export function readResponsesUsage(usage: Json | undefined): Usage | null {
  if (!isObject(usage)) return null;
  const input = child(usage, 'input_tokens_details');
  return {
    promptTokens: countOf(usage['input_tokens']),
    completionTokens: countOf(usage['output_tokens']),
    cachedTokens: countOf(input['cached_tokens']),
    cacheWriteTokens: countOf(input['cache_write_tokens']),
    reasoningTokens: countOf(child(usage, 'output_tokens_details')['reasoning_tokens']),
    cost: costOf(usage),
  };
}

export function writeResponsesUsage(usage: Usage): JsonObject {
  const [input, output] = [orZero(usage.promptTokens), orZero(usage.completionTokens)];
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: orZero(usage.cachedTokens) },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: orZero(usage.reasoningTokens) },
    total_tokens: input + output,
  };
}

/** Messages: three disjoint input counts. */
export function readMessagesUsage(usage: Json | undefined): Usage | null {
  if (!isObject(usage)) return null;
  const [read, written] = [countOf(usage['cache_read_input_tokens']), countOf(usage['cache_creation_input_tokens'])];
  const input = countOf(usage['input_tokens']);
  return {
    promptTokens: input === null ? null : input + orZero(read) + orZero(written),
    completionTokens: countOf(usage['output_tokens']),
    cachedTokens: read,
    cacheWriteTokens: written,
    reasoningTokens: countOf(child(usage, 'output_tokens_details')['thinking_tokens']),
    cost: costOf(usage),
  };
}

export function writeMessagesUsage(usage: Usage): JsonObject {
  const [read, written] = [orZero(usage.cachedTokens), orZero(usage.cacheWriteTokens)];
  return {
    input_tokens: Math.max(0, orZero(usage.promptTokens) - read - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: orZero(usage.completionTokens),
  };
}
