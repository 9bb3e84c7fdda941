/** Chat completions. Token ids and log-probabilities are those of vLLM (`prompt_token_ids`, `choices[].token_ids`, `logprobs`), where the server returned them. */
import type { Message, Usage } from '../record-types.ts';
import { countOf, errorOf, isMap, isSilent, listOf, mapOf, mapsOf, said, textOf, without, type Answer, type Choice, type Dialect, type Fold, type JsonMap } from './dialect.ts'; // prettier-ignore

const NOT_SAMPLING: ReadonlySet<string> = new Set(['model', 'messages', 'tools', 'stream', 'stream_options', 'metadata', 'user']);
const READ: ReadonlySet<string> = new Set(['role', 'content', 'reasoning', 'reasoning_content', 'refusal', 'tool_calls']);

export const chat: Dialect = {
  name: 'openai.chat',
  ask: (body) => ({
    model: textOf(body['model']),
    messages: mapsOf(body['messages']).map(chatMessage),
    tools: listOf(body['tools']),
    stream: body['stream'] === true,
    sampling: without(body, NOT_SAMPLING),
    previous: undefined,
  }),
  answer: (body) => ({
    id: textOf(body['id']),
    model: textOf(body['model']),
    choices: mapsOf(body['choices'])
      .toSorted((a, b) => (countOf(a['index']) ?? 0) - (countOf(b['index']) ?? 0))
      .map((choice) => ({
        message: isMap(choice['message']) ? chatMessage(choice['message']) : null,
        finishReason: textOf(choice['finish_reason']),
        ids: idsOf(choice['token_ids']),
        logprobs: logprobsOf(choice['logprobs']),
      })),
    usage: chatUsage(body['usage']),
    promptIds: idsOf(body['prompt_token_ids']) ?? idsOf(mapsOf(body['choices'])[0]?.['prompt_token_ids']),
    error: isMap(body['error']) ? errorOf(body['error']) : undefined,
  }),
  fold: chatFold,
};

/** A chat message, of a request or an answer, in neutral form. */
export function chatMessage(raw: JsonMap): Message {
  const calls = listOf(raw['tool_calls']);
  const reasoning = [raw['reasoning'], raw['reasoning_content']].map(textOf).find((text) => text !== undefined && text !== '');
  return {
    ...said(without(raw, READ)),
    role: textOf(raw['role']) ?? 'assistant',
    content: raw['content'] ?? null,
    ...said({ reasoning_content: reasoning, refusal: raw['refusal'], tool_calls: calls.length > 0 ? calls.map(neutralCall) : undefined }),
  };
}

/** What is neither a function nor a custom tool stays verbatim. */
function neutralCall(call: unknown): unknown {
  if (!isMap(call)) return call;
  const custom = isMap(call['custom']) ? call['custom'] : null;
  const body = custom ?? (isMap(call['function']) ? call['function'] : null);
  if (body === null) return call;
  const given = custom === null ? body['arguments'] : body['input'];
  const text = typeof given === 'string' ? given : isSilent(given) ? '' : JSON.stringify(given);
  return { id: textOf(call['id']) ?? '', name: textOf(body['name']) ?? '', arguments: text, ...(custom !== null && { type: 'custom' }) };
}

function chatUsage(value: unknown): Usage | undefined {
  if (!isMap(value)) return undefined;
  return {
    promptTokens: countOf(value['prompt_tokens']),
    completionTokens: countOf(value['completion_tokens']),
    cachedTokens: countOf(mapOf(value['prompt_tokens_details'])['cached_tokens']),
    reasoningTokens: countOf(mapOf(value['completion_tokens_details'])['reasoning_tokens']),
    cost: typeof value['cost'] === 'number' ? value['cost'] : undefined,
  };
}

function idsOf(value: unknown): readonly number[] | null {
  return Array.isArray(value) ? (value as readonly number[]) : null;
}

function logprobsOf(value: unknown): readonly unknown[] | null {
  const content = mapOf(value)['content'];
  return Array.isArray(content) ? content.map((each) => mapOf(each)['logprob']) : null;
}

type Growing = {
  readonly fields: Record<string, string>;
  readonly calls: Map<number, { id: string; name: string; arguments: string }>;
  ids: number[] | null;
  logprobs: unknown[] | null;
  finishReason: string | undefined;
};

function chatFold(): Fold {
  const choices = new Map<number, Growing>();
  let head: JsonMap = {};
  let promptIds: readonly number[] | null = null;
  let usage: Usage | undefined;
  let error: Answer['error'];
  return {
    add: (data) => {
      if (data === '[DONE]') return { hasContent: false, isLast: true };
      if (!isMap(data)) return { hasContent: false, isLast: false };
      if (isSilent(head['id'])) head = data;
      promptIds ??= idsOf(data['prompt_token_ids']);
      usage = chatUsage(data['usage']) ?? usage;
      if (isMap(data['error'])) error = errorOf(data['error']);
      let hasContent = false;
      for (const chunk of mapsOf(data['choices'])) {
        promptIds ??= idsOf(chunk['prompt_token_ids']);
        const index = countOf(chunk['index']) ?? 0;
        const choice = choices.get(index) ?? { fields: {}, calls: new Map(), ids: null, logprobs: null, finishReason: undefined };
        choices.set(index, choice);
        hasContent = grow(choice, chunk) || hasContent;
      }
      return { hasContent, isLast: false };
    },
    answer: () => ({
      id: textOf(head['id']),
      model: textOf(head['model']),
      choices: [...choices].toSorted(([a], [b]) => a - b).map(([, choice]) => grown(choice)),
      usage,
      promptIds,
      error,
    }),
  };
}

const TEXTS = ['content', 'reasoning_content', 'reasoning', 'refusal'] as const;

/** Whether anything of the answer itself came. */
function grow(choice: Growing, chunk: JsonMap): boolean {
  const delta = mapOf(chunk['delta']);
  let hasContent = false;
  for (const key of TEXTS) {
    const text = textOf(delta[key]);
    if (text === undefined) continue;
    choice.fields[key] = (choice.fields[key] ?? '') + text;
    hasContent ||= text !== '';
  }
  for (const part of mapsOf(delta['tool_calls'])) {
    const at = countOf(part['index']) ?? 0;
    const call = choice.calls.get(at) ?? { id: '', name: '', arguments: '' };
    const body = mapOf(part['function']);
    choice.calls.set(at, {
      id: call.id === '' ? (textOf(part['id']) ?? '') : call.id,
      name: call.name + (textOf(body['name']) ?? ''),
      arguments: call.arguments + (textOf(body['arguments']) ?? ''),
    });
    hasContent = true;
  }
  const ids = idsOf(chunk['token_ids']);
  if (ids !== null) (choice.ids ??= []).push(...ids);
  const logprobs = logprobsOf(chunk['logprobs']);
  if (logprobs !== null) (choice.logprobs ??= []).push(...logprobs);
  choice.finishReason = textOf(chunk['finish_reason']) ?? choice.finishReason;
  return hasContent;
}

function grown({ fields, calls, ids, logprobs, finishReason }: Growing): Choice {
  const { content, reasoning_content: reasoningContent, reasoning, refusal } = fields;
  const toolCalls = [...calls].toSorted(([a], [b]) => a - b).map(([, call]) => call);
  const isText = !isSilent(content) || toolCalls.length === 0;
  const message: Message = {
    role: 'assistant',
    content: isText ? (content ?? null) : null,
    ...said({ reasoning_content: reasoning || reasoningContent, refusal, tool_calls: toolCalls }),
  };
  return { message, finishReason, ids, logprobs };
}
