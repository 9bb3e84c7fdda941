/** Messages of a conversation as the parts of ATIF steps: text and images, tool calls with objects as arguments, results under the call they answer. Pure. */
import { JsonText } from './exact-json.ts';

type Data = Readonly<Record<string, unknown>>;
export type Count = (what: string, times?: number) => void;
export type Source = 'system' | 'user' | 'agent';
export type AtifToolCall = {
  readonly tool_call_id: string;
  readonly function_name: string;
  readonly arguments: JsonText;
  readonly extra?: Data;
};

export function dataOf(value: unknown): Data | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Data) : null;
}
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function sourceOf(role: unknown): Source | 'tool' {
  if (role === 'assistant') return 'agent';
  if (role === 'tool' || role === 'function') return 'tool';
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}

/** Text as text; parts as ATIF's parts where all of them are text or images that lie somewhere. Other parts have no place and are counted. */
export function contentOf(content: unknown, count: Count): string | readonly Data[] {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) {
    count('contents of messages of another kind');
    return '';
  }
  return content.flatMap((part) => {
    const made = partOf(part);
    if (made === null) count('parts of messages that are neither text nor a linked image');
    return made === null ? [] : [made];
  });
}

const MEDIA: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};

function partOf(part: unknown): Data | null {
  const data = dataOf(part);
  if (typeof part === 'string') return { type: 'text', text: part };
  if (typeof data?.['text'] === 'string') return { type: 'text', text: data['text'] };
  const url = dataOf(data?.['image_url'])?.['url'] ?? data?.['image_url'];
  if (typeof url !== 'string' || url.startsWith('data:')) return null;
  const media = MEDIA[/\.([a-zA-Z]+)(?:[?#]|$)/.exec(url)?.[1]?.toLowerCase() ?? ''];
  return media === undefined ? null : { type: 'image', source: { media_type: media, path: url } };
}

/** Calls in verifiers' form or OpenAI's. Arguments that are no object stay as text in `extra.arguments`, since ATIF wants an object. */
export function toolCallsOf(message: Data, count: Count): AtifToolCall[] {
  return listOf(message['tool_calls']).flatMap((call, index) => {
    const data = dataOf(call);
    const inner = dataOf(data?.['function']) ?? data;
    if (typeof inner?.['name'] !== 'string') {
      count('tool calls without a name');
      return [];
    }
    const text = inner['arguments'];
    const isObject = typeof text === 'string' && isObjectText(text);
    if (!isObject) count('tool arguments that are no JSON object (kept as text in extra)');
    const id = typeof data?.['id'] === 'string' && data['id'] !== '' ? data['id'] : `call_${index}`;
    return [{ tool_call_id: id, function_name: inner['name'], arguments: new JsonText(isObject ? text : '{}'), ...(!isObject && { extra: { arguments: text ?? null } }) }];
  });
} // prettier-ignore

function isObjectText(text: string): boolean {
  try {
    return dataOf(JSON.parse(text)) !== null;
  } catch {
    return false;
  }
}

/** Definitions in OpenAI's form; plain `{name, description, parameters}` are put into it. */
export function definitionsOf(tools: unknown): readonly unknown[] | undefined {
  const list = listOf(tools);
  if (list.length === 0) return undefined;
  return list.map((tool) => (dataOf(dataOf(tool)?.['function']) === null ? { type: 'function', function: tool } : tool));
}

/** Microseconds since 1970 as ISO 8601 in UTC; nothing for 0, which stands for an unknown time. */
export function isoOf(micros: number): string | undefined {
  if (micros <= 0) return undefined;
  return `${new Date(Math.floor(micros / 1000)).toISOString().slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`;
}
