/**
 * Messages of a conversation as the parts of ATIF steps, and back: text and images, tool calls with objects as arguments, results under the call they answer. Pure. What the
 * parts do not say of a message lies in `extra.tapedeck` of the step or result, so that the message comes back as it was.
 */
import { compact, isList, isRecord, itemsOf, recordOf, sameJson, textOf, type Json, type JsonRecord } from '../json-value.ts';
import { nestedRest, withNestedRest } from '../nested-rest.ts';
import { innerJson } from '../read-json.ts';
import { jsonText } from '../verifiers-v0-row.ts';

export type Count = (what: string, times?: number) => void;
export type Source = 'system' | 'user' | 'agent';
const ROLES: Readonly<Record<string, string>> = { system: 'system', user: 'user', agent: 'assistant' };

export function sourceOf(role: Json | undefined): Source | 'tool' {
  if (role === 'assistant') return 'agent';
  if (role === 'tool' || role === 'function') return 'tool';
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}

/** Text as text; parts as ATIF's parts where they are text or images that lie somewhere. What has no place is counted. */
export function contentOf(content: Json | undefined, count: Count): Json {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!isList(content)) {
    count('contents of messages of another kind (kept in extra)');
    return '';
  }
  return content.flatMap((part) => {
    const made = partOf(part);
    if (made === null) count('parts of messages that are neither text nor a linked image (kept in extra)');
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

function partOf(part: Json): JsonRecord | null {
  const data = recordOf(part);
  if (typeof part === 'string') return { type: 'text', text: part };
  if (typeof data?.['text'] === 'string') return { type: 'text', text: data['text'] };
  const url = recordOf(data?.['image_url'])?.['url'] ?? data?.['image_url'];
  if (typeof url !== 'string' || url.startsWith('data:')) return null;
  const media = MEDIA[/\.([a-zA-Z]+)(?:[?#]|$)/.exec(url)?.[1]?.toLowerCase() ?? ''];
  return media === undefined ? null : { type: 'image', source: { media_type: media, path: url } };
}

/** The content of a message; what is no part of ATIF stays as it is. */
function contentFrom(content: Json | undefined): Json {
  if (!isList(content)) return content ?? '';
  return content.map((part) => {
    const path = recordOf(recordOf(part)?.['source'])?.['path'];
    return recordOf(part)?.['type'] === 'image' && typeof path === 'string' ? { type: 'image_url', image_url: { url: path } } : part;
  });
}

/** Calls in verifiers' form or OpenAI's. Arguments that are no object stay as text in `extra.arguments`, since ATIF wants an object. */
export function toolCallsOf(message: JsonRecord, count: Count): JsonRecord[] {
  return itemsOf(message['tool_calls']).flatMap((call, index) => {
    const data = recordOf(call);
    const inner = recordOf(data?.['function']) ?? data;
    if (typeof inner?.['name'] !== 'string') {
      count('tool calls without a name (kept in extra)');
      return [];
    }
    const text = inner['arguments'];
    const object = typeof text === 'string' ? objectOf(text) : null;
    if (object === null) count('tool arguments that are no JSON object (kept as text in extra)');
    const id = typeof data?.['id'] === 'string' && data['id'] !== '' ? data['id'] : `call_${index}`;
    return [{ tool_call_id: id, function_name: inner['name'], arguments: object ?? {}, ...(object === null && { extra: { arguments: text ?? null } }) }];
  });
} // prettier-ignore

/** What every reader takes for an object: no NaN, no key twice. */
function objectOf(text: string): JsonRecord | null {
  try {
    if (!isRecord(JSON.parse(text) as Json)) return null;
  } catch {
    return null;
  }
  return recordOf(innerJson(text) ?? undefined);
}

function toolCallsFrom(calls: Json | undefined): Json | undefined {
  if (!isList(calls) || calls.length === 0) return undefined;
  return calls.map((call) => {
    const { tool_call_id: id, function_name: name, arguments: given, extra } = recordOf(call) ?? {};
    const kept = isRecord(extra) && sameJson(given, {}) ? extra['arguments'] : undefined;
    return compact({ id, name, arguments: kept ?? (given === undefined || typeof given === 'string' ? given : jsonText(given)) });
  });
}

/** The message of a step, or of a result where `result` says so, without what lies in `extra`. */
function bareMessage(part: JsonRecord, isResult: boolean): JsonRecord {
  if (isResult) return compact({ role: 'tool', tool_call_id: textOf(part['source_call_id']) ?? undefined, content: contentFrom(part['content']) });
  const role = ROLES[textOf(part['source']) ?? ''] ?? 'user';
  const own = role === 'assistant' ? { reasoning_content: textOf(part['reasoning_content']) ?? undefined, tool_calls: toolCallsFrom(part['tool_calls']) } : {};
  return compact({ role, content: contentFrom(part['message']), ...own });
} // prettier-ignore

/** The message that a step or a result stands for. */
export function messageFrom(part: JsonRecord, isResult: boolean): JsonRecord {
  return withNestedRest(bareMessage(part, isResult), ownExtra(part)['message']);
}

/** What the step or result does not say of its message; undefined when it says everything. */
export function messageRest(message: JsonRecord, part: JsonRecord, isResult: boolean): Json | undefined {
  return nestedRest(message, bareMessage(part, isResult)) ?? undefined;
}

/** What an export of ours put into the bag of a step, a result or a trajectory. */
export function ownExtra(part: JsonRecord): JsonRecord {
  return recordOf(recordOf(part['extra'])?.['tapedeck']) ?? {};
}

/** `extra` with these of ours in it; undefined when there are none. */
export function extraWith(own: { readonly [key: string]: Json | undefined }): JsonRecord | undefined {
  const some = compact(own);
  return Object.keys(some).length > 0 ? { tapedeck: some } : undefined;
}

/** Definitions in OpenAI's form; plain `{name, description, parameters}` are put into it. */
export function definitionsOf(tools: Json | undefined): Json | undefined {
  const list = itemsOf(tools);
  if (list.length === 0) return undefined;
  return list.map((tool) => (isRecord(recordOf(tool)?.['function']) ? tool : { type: 'function', function: tool }));
}

/** Plain definitions; null when there is no list of objects. */
export function definitionsFrom(definitions: Json | undefined): readonly JsonRecord[] | null {
  if (!isList(definitions) || !definitions.every(isRecord)) return null;
  return definitions.map((tool) => (tool['type'] === 'function' && Object.keys(tool).length === 2 && isRecord(tool['function']) ? tool['function'] : tool));
} // prettier-ignore

/** Microseconds since 1970 as ISO 8601 in UTC; nothing for 0, which stands for an unknown time. */
export function isoOf(micros: number): string | undefined {
  if (micros <= 0) return undefined;
  return `${new Date(Math.floor(micros / 1000)).toISOString().slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`;
}
