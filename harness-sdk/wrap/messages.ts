/** Anthropic's Messages. It has no token ids: nodes are text only. */
import type { Message, Usage } from '../record-types.ts';
import { countOf, errorOf, isMap, isSilent, listOf, mapOf, mapsOf, said, textOf, without, type Answer, type Dialect, type Fold, type JsonMap } from './dialect.ts'; // prettier-ignore

const NOT_SAMPLING: ReadonlySet<string> = new Set(['model', 'messages', 'system', 'tools', 'stream', 'metadata']);

export const messages: Dialect = {
  name: 'anthropic.messages',
  ask: (body) => ({
    model: textOf(body['model']),
    messages: [
      ...(isSilent(body['system']) ? [] : [{ role: 'system', content: contentOf(body['system']) }]),
      ...mapsOf(body['messages']).flatMap(turnOf),
    ],
    tools: listOf(body['tools']),
    stream: body['stream'] === true,
    sampling: without(body, NOT_SAMPLING),
    previous: undefined,
  }),
  answer: (body) => ({
    id: textOf(body['id']),
    model: textOf(body['model']),
    choices: [{ message: assistantOf(mapsOf(body['content'])), finishReason: finishOf(body['stop_reason']), ids: null, logprobs: null }],
    usage: usageOf(body['usage']),
    promptIds: null,
    error: body['type'] === 'error' ? errorOf(body['error']) : undefined,
  }),
  fold: messagesFold,
};

/** In chat words where there are such. */
const FINISH: Readonly<Record<string, string>> = { end_turn: 'stop', stop_sequence: 'stop', max_tokens: 'length', tool_use: 'tool_calls', refusal: 'content_filter' }; // prettier-ignore

function finishOf(reason: unknown): string | undefined {
  const text = textOf(reason);
  return text === undefined ? undefined : (FINISH[text] ?? text);
}

/** One turn as messages: results of tools are messages of their own. */
function turnOf(turn: JsonMap): readonly Message[] {
  const role = textOf(turn['role']) ?? 'user';
  const { content } = turn;
  if (!Array.isArray(content)) return [{ role, content: content ?? null }];
  if (role === 'assistant') return [assistantOf(mapsOf(content))];
  const found: Message[] = [];
  let others: unknown[] = [];
  const flush = (): void => {
    if (others.length > 0) found.push({ role, content: contentOf(others) });
    others = [];
  };
  for (const block of content as unknown[]) {
    if (!isMap(block) || block['type'] !== 'tool_result') {
      others.push(block);
      continue;
    }
    flush();
    const result = { role: 'tool', tool_call_id: textOf(block['tool_use_id']) ?? '', content: contentOf(block['content']) };
    found.push(block['is_error'] === true ? { ...result, is_error: true } : result);
  }
  flush();
  return found.length > 0 ? found : [{ role, content: [] }];
}

/** One plain text block is its text; images become chat parts; other blocks stay as they are. */
function contentOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content ?? null;
  const parts = content.map(partOf);
  const [only] = parts;
  return parts.length === 1 && isMap(only) && only['type'] === 'text' && Object.keys(only).length === 2 ? only['text'] : parts;
}

function partOf(block: unknown): unknown {
  if (!isMap(block)) return block;
  if (block['type'] === 'text') return { ...said(block), text: block['text'] };
  const source = mapOf(block['source']);
  if (block['type'] !== 'image') return block;
  if (source['type'] === 'url') return { type: 'image_url', image_url: { url: source['url'] } };
  const { media_type: mediaType, data } = source;
  return typeof mediaType === 'string' && typeof data === 'string'
    ? { type: 'image_url', image_url: { url: `data:${mediaType};base64,${data}` } }
    : block;
}

const THINKING: ReadonlySet<unknown> = new Set(['thinking', 'redacted_thinking']);
const ORDER: Readonly<Record<string, number>> = { thinking: 0, redacted_thinking: 0, text: 1, tool_use: 2 };

/** Thinking, one text, tool calls, in this order, have neutral fields; signed thinking is kept beside them, and any other list of blocks as a whole. */
function assistantOf(blocks: readonly JsonMap[]): Message {
  const texts = blocks.filter(({ type }) => type === 'text');
  const calls = blocks.filter(({ type }) => type === 'tool_use');
  const thoughts = blocks.map((block) => (block['type'] === 'thinking' ? (textOf(block['thinking']) ?? '') : '')).join('');
  const kept = isPlain(blocks) ? blocks.filter(({ type }) => THINKING.has(type)) : blocks;
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.map((block) => textOf(block['text']) ?? '').join(''),
    ...said({
      reasoning_content: thoughts,
      tool_calls: calls.map((block) => ({
        id: textOf(block['id']) ?? '',
        name: textOf(block['name']) ?? '',
        arguments: argumentsOf(block),
      })),
      provider_state: kept.map((block) => without(block, INPUT_TEXT)),
    }),
  };
}

/** A streamed input keeps the model's own text under this key until here. */
const STREAMED = 'input_text';
const INPUT_TEXT: ReadonlySet<string> = new Set([STREAMED]);

function argumentsOf(block: JsonMap): string {
  return textOf(block[STREAMED]) ?? JSON.stringify(block['input'] ?? {});
}

function isPlain(blocks: readonly JsonMap[]): boolean {
  let phase = 0;
  for (const { type } of blocks) {
    const at = ORDER[String(type)] ?? -1;
    if (at < phase || (at === 1 && phase === 1)) return false;
    phase = at;
  }
  return true;
}

/** `input_tokens` leaves out what was read from or written to the cache. */
function usageOf(value: unknown): Usage | undefined {
  if (!isMap(value)) return undefined;
  const fresh = countOf(value['input_tokens']);
  const cached = countOf(value['cache_read_input_tokens']);
  const written = countOf(value['cache_creation_input_tokens']);
  const promptTokens = fresh === undefined ? undefined : fresh + (cached ?? 0) + (written ?? 0);
  return { promptTokens, completionTokens: countOf(value['output_tokens']), cachedTokens: cached };
}

function messagesFold(): Fold {
  const blocks: Record<string, unknown>[] = [];
  let head: JsonMap = {};
  let usage: JsonMap | undefined;
  let finishReason: string | undefined;
  let error: Answer['error'];
  let began = false;
  return {
    add: (data) => {
      if (!isMap(data)) return { hasContent: false, isLast: false };
      switch (data['type']) {
        case 'message_start':
          head = mapOf(data['message']);
          usage = { ...mapOf(head['usage']) };
          began = true;
          break;
        case 'content_block_start':
          blocks[countOf(data['index']) ?? blocks.length] = { ...mapOf(data['content_block']) };
          break;
        case 'content_block_delta':
          return { hasContent: growBlock(blocks[countOf(data['index']) ?? -1], mapOf(data['delta'])), isLast: false };
        case 'message_delta':
          finishReason = finishOf(mapOf(data['delta'])['stop_reason']) ?? finishReason;
          usage = { ...usage, ...said(mapOf(data['usage'])) };
          break;
        case 'error':
          error = errorOf(data['error']);
          break;
        default:
      }
      return { hasContent: false, isLast: data['type'] === 'message_stop' };
    },
    answer: () => ({
      id: textOf(head['id']),
      model: textOf(head['model']),
      choices: began ? [{ message: assistantOf(blocks.filter(isMap)), finishReason, ids: null, logprobs: null }] : [],
      usage: usageOf(usage),
      promptIds: null,
      error,
    }),
  };
}

function growBlock(block: Record<string, unknown> | undefined, delta: JsonMap): boolean {
  if (block === undefined) return false;
  const add = (key: string, value: unknown): boolean => {
    const text = textOf(value) ?? '';
    block[key] = `${textOf(block[key]) ?? ''}${text}`;
    return text !== '';
  };
  switch (delta['type']) {
    case 'text_delta':
      return add('text', delta['text']);
    case 'thinking_delta':
      return add('thinking', delta['thinking']);
    case 'signature_delta':
      add('signature', delta['signature']);
      return false;
    case 'input_json_delta':
      return add(STREAMED, delta['partial_json']);
    default:
      return false;
  }
}
