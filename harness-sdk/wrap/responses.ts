/** OpenAI's Responses. Nodes are text only. */
import type { Message, Usage } from '../record-types.ts';
import { countOf, errorOf, isMap, isSilent, listOf, mapOf, mapsOf, NO_ANSWER, said, textOf, without, type Answer, type Dialect, type Fold, type JsonMap } from './dialect.ts'; // prettier-ignore

const NOT_SAMPLING: ReadonlySet<string> = new Set([
  'model', 'input', 'instructions', 'tools', 'stream', 'previous_response_id', 'metadata', 'user',
]); // prettier-ignore

export const responses: Dialect = {
  name: 'openai.responses',
  ask: (body) => ({
    model: textOf(body['model']),
    messages: [
      ...(isSilent(body['instructions']) ? [] : [{ role: 'system', content: contentOf(body['instructions']) }]),
      ...inputOf(body['input']),
    ],
    tools: listOf(body['tools']),
    stream: body['stream'] === true,
    sampling: without(body, NOT_SAMPLING),
    previous: textOf(body['previous_response_id']),
  }),
  answer: answerOf,
  fold: responsesFold,
};

function inputOf(input: unknown): readonly Message[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  const found: Message[] = [];
  let run: JsonMap[] = [];
  const flush = (): void => {
    if (run.length > 0) found.push(assistantOf(run));
    run = [];
  };
  for (const item of mapsOf(input)) {
    if (isAssistant(item)) {
      run.push(item);
      continue;
    }
    flush();
    found.push(itemOf(item));
  }
  flush();
  return found;
}

function typeOf(item: JsonMap): string {
  return textOf(item['type']) ?? (item['role'] === undefined ? '' : 'message');
}

function isAssistant(item: JsonMap): boolean {
  return item['role'] === undefined ? !/_output$|_response$/.test(typeOf(item)) : item['role'] === 'assistant';
}

function itemOf(item: JsonMap): Message {
  const role = textOf(item['role']);
  if (role !== undefined) return { role, content: contentOf(item['content']) };
  const id = textOf(item['call_id']) ?? textOf(item['approval_request_id']) ?? '';
  const content = contentOf(item['output']);
  if (/^(function|custom_tool)_call_output$/.test(typeOf(item))) return { role: 'tool', tool_call_id: id, content };
  return { role: 'tool', tool_call_id: id, content: typeof content === 'string' ? content : null, provider_state: [item] };
}

/** One plain text part is its text; texts and images become chat parts; other parts stay as they are. */
function contentOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content ?? null;
  const parts = content.map((part: unknown) => {
    if (!isMap(part)) return part;
    if (part['type'] === 'input_text' || part['type'] === 'output_text') return { type: 'text', text: part['text'] };
    if (part['type'] === 'input_image' && typeof part['image_url'] === 'string') return { type: 'image_url', image_url: said({ url: part['image_url'], detail: part['detail'] }) }; // prettier-ignore
    return part;
  });
  const [only] = parts;
  return parts.length === 1 && isMap(only) && only['type'] === 'text' ? only['text'] : parts;
}

const CALLS: ReadonlySet<string> = new Set(['function_call', 'custom_tool_call']);

/** Reasoning, one message, calls, in this order, have neutral fields; reasoning that only its provider can read is kept beside them, any other run as a whole. */
function assistantOf(items: readonly JsonMap[]): Message {
  const parts = items.filter((item) => typeOf(item) === 'message').flatMap((item) => partsOf(item['content']));
  const calls = items.filter((item) => CALLS.has(typeOf(item)));
  const texts = parts.filter(({ text }) => typeof text === 'string');
  const refusals = parts.filter(({ refusal }) => typeof refusal === 'string');
  const reasoning = items.filter((item) => typeOf(item) === 'reasoning');
  const thoughts = reasoning.flatMap((item) =>
    [...partsOf(item['summary']), ...partsOf(item['content'])].map(({ text }) => textOf(text) ?? ''),
  );
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.map(({ text }) => text as string).join(''),
    ...said({
      reasoning_content: thoughts.filter((text) => text !== '').join('\n'),
      refusal: refusals.map(({ refusal }) => refusal as string).join(''),
      tool_calls: calls.map(callOf),
      provider_state: (isPlain(items) ? reasoning : items).filter((item) => typeOf(item) !== 'reasoning' || !isOpen(item)),
    }),
  };
}

function partsOf(content: unknown): readonly JsonMap[] {
  return typeof content === 'string' ? [{ type: 'output_text', text: content }] : mapsOf(content);
}

/** All of it can be read, and none of it is a summary: the provider needs nothing back. */
function isOpen(item: JsonMap): boolean {
  return isSilent(item['encrypted_content']) && partsOf(item['summary']).length === 0 && partsOf(item['content']).length > 0;
}

function callOf(item: JsonMap): JsonMap {
  const custom = typeOf(item) === 'custom_tool_call';
  const text = textOf(custom ? item['input'] : item['arguments']) ?? '';
  return { id: textOf(item['call_id']) ?? '', name: textOf(item['name']) ?? '', arguments: text, ...(custom && { type: 'custom' }) };
}

function isPlain(items: readonly JsonMap[]): boolean {
  let phase = 0;
  for (const item of items) {
    const type = typeOf(item);
    const at = type === 'reasoning' ? 0 : type === 'message' ? 1 : CALLS.has(type) ? 2 : -1;
    if (at < phase || (at === 1 && phase === 1)) return false;
    phase = at;
  }
  return true;
}

function answerOf(body: JsonMap): Answer {
  const output = mapsOf(body['output']);
  const failed = isMap(body['error']) ? errorOf(body['error']) : undefined;
  return {
    id: textOf(body['id']),
    model: textOf(body['model']),
    choices: output.length === 0 ? [] : [{ message: assistantOf(output), finishReason: finishOf(body, output), ids: null, logprobs: null }],
    usage: usageOf(body['usage']),
    promptIds: null,
    error: failed,
  };
}

/** In chat words. */
function finishOf(body: JsonMap, output: readonly JsonMap[]): string | undefined {
  const why = textOf(mapOf(body['incomplete_details'])['reason']);
  if (body['status'] === 'incomplete') return why === 'max_output_tokens' ? 'length' : (why ?? 'incomplete');
  if (body['status'] !== 'completed') return textOf(body['status']);
  return output.some((item) => CALLS.has(typeOf(item))) ? 'tool_calls' : 'stop';
}

function usageOf(value: unknown): Usage | undefined {
  if (!isMap(value)) return undefined;
  return {
    promptTokens: countOf(value['input_tokens']),
    completionTokens: countOf(value['output_tokens']),
    cachedTokens: countOf(mapOf(value['input_tokens_details'])['cached_tokens']),
    reasoningTokens: countOf(mapOf(value['output_tokens_details'])['reasoning_tokens']),
  };
}

const LAST: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** The last event holds the whole answer; until then it is put together from what came. */
function responsesFold(): Fold {
  let whole: JsonMap | null = null;
  let head: JsonMap = {};
  let error: Answer['error'];
  const items = new Map<number, Record<string, unknown>>();
  return {
    add: (data) => {
      if (!isMap(data)) return { hasContent: false, isLast: false };
      const { type } = data;
      const at = countOf(data['output_index']) ?? 0;
      if (type === 'response.created') head = mapOf(data['response']);
      if (type === 'error') error = errorOf(data);
      if (type === 'response.output_item.added' || type === 'response.output_item.done') items.set(at, { ...mapOf(data['item']) });
      if (LAST.has(type)) {
        whole = mapOf(data['response']);
        return { hasContent: false, isLast: true };
      }
      return { hasContent: growItem(items.get(at), textOf(type) ?? '', textOf(data['delta']) ?? ''), isLast: false };
    },
    answer: () => {
      if (whole !== null) return answerOf(whole);
      const output = [...items].toSorted(([a], [b]) => a - b).map(([, item]) => item);
      return { ...NO_ANSWER, ...answerOf({ ...head, output, error: null, usage: null, status: undefined }), error };
    },
  };
}

const DELTAS: Readonly<Record<string, { readonly list?: string; readonly key: string; readonly type?: string }>> = {
  'response.output_text.delta': { list: 'content', key: 'text', type: 'output_text' },
  'response.refusal.delta': { list: 'content', key: 'refusal', type: 'refusal' },
  'response.reasoning_text.delta': { list: 'content', key: 'text', type: 'reasoning_text' },
  'response.reasoning_summary_text.delta': { list: 'summary', key: 'text', type: 'summary_text' },
  'response.function_call_arguments.delta': { key: 'arguments' },
  'response.custom_tool_call_input.delta': { key: 'input' },
};

function growItem(item: Record<string, unknown> | undefined, type: string, delta: string): boolean {
  const place = DELTAS[type];
  if (item === undefined || place === undefined) return false;
  if (place.list === undefined) {
    item[place.key] = `${textOf(item[place.key]) ?? ''}${delta}`;
    return delta !== '';
  }
  const parts = [...mapsOf(item[place.list])];
  const last = parts.at(-1);
  const isSame = last !== undefined && last['type'] === place.type;
  const text = `${isSame ? (textOf(last[place.key]) ?? '') : ''}${delta}`;
  item[place.list] = [...(isSame ? parts.slice(0, -1) : parts), { type: place.type, [place.key]: text }];
  return delta !== '';
}
