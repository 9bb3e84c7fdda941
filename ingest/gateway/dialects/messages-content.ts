/** Content that a user, a system prompt or a tool result has in the Messages dialect, to neutral parts and back. */
import { ok, type Result } from '../../../base/result.ts';
import { isLink, readDataUrl, writeDataUrl } from './data-url.ts';
import type { Json, JsonObject } from './dialect.ts';
import { asksNothing, cannotTranslate } from './refusals.ts';
import { compact, fromPairs, isList, isObject, textOf, without, wordOf } from './json.ts';

const TO = 'anthropic.messages';

/** A text, null, or a list of parts; one plain text block is its text. */
export function readMessagesContent(content: Json | undefined): Json {
  if (!isList(content)) return content ?? null;
  const parts = content.map(readPart);
  const [only] = parts;
  return parts.length === 1 && isObject(only) && only['type'] === 'text' && Object.keys(only).length === 2 ? (only['text'] as Json) : parts;
}

/** Text, images and plain documents become chat parts; everything else stays the block it is. */
function readPart(block: Json): Json {
  if (!isObject(block)) return block;
  const source = isObject(block['source']) ? block['source'] : {};
  switch (block['type']) {
    case 'text':
      return fromPairs(Object.entries(block).filter(([key, value]) => key === 'text' || !asksNothing(value)));
    case 'image': {
      const url = urlOf(source);
      return url === null ? block : { type: 'image_url', image_url: { url }, ...marks(block) };
    }
    case 'document': {
      const isPlain = Object.entries(block).every(([key, value]) => DOCUMENT_KEYS.has(key) || asksNothing(value));
      const { media_type: mediaType, data } = source;
      if (!isPlain || source['type'] !== 'base64' || typeof mediaType !== 'string' || typeof data !== 'string') return block;
      const file = compact({ filename: block['title'] ?? undefined, file_data: writeDataUrl({ mediaType, base64: data }) });
      return { type: 'file', file, ...marks(block) };
    }
    default:
      return block;
  }
}

const DOCUMENT_KEYS: ReadonlySet<string> = new Set(['type', 'source', 'title', 'cache_control']);

function marks(block: JsonObject): JsonObject {
  return compact({ cache_control: asksNothing(block['cache_control']) ? undefined : block['cache_control'] });
}

function urlOf(source: JsonObject): string | null {
  const { url, media_type: mediaType, data } = source;
  if (source['type'] === 'url' && typeof url === 'string') return url;
  return typeof mediaType === 'string' && typeof data === 'string' ? writeDataUrl({ mediaType, base64: data }) : null;
}

/** Blocks of neutral content. `same` = it was read from this dialect, so that unknown blocks go back as they came. */
export function writeMessagesBlocks(content: Json, field: string, same: boolean): Result<readonly JsonObject[]> {
  if (!isList(content)) {
    const text = textOf(content) ?? '';
    return ok(text === '' ? [] : [{ type: 'text', text }]);
  }
  const blocks: JsonObject[] = [];
  for (const [i, part] of content.entries()) {
    const block = writePart(part, `${field}[${i}]`, same);
    if (!block.ok) return block;
    blocks.push(block.value);
  }
  return ok(blocks);
}

/** A text where it is one, else blocks. */
export function writeMessagesContent(content: Json, field: string, same: boolean): Result<Json> {
  return isList(content) ? writeMessagesBlocks(content, field, same) : ok(textOf(content) ?? '');
}

function writePart(part: Json, field: string, same: boolean): Result<JsonObject> {
  if (!isObject(part)) return cannotTranslate(field, TO, 'a part must be an object', 'send a list of parts');
  switch (part['type']) {
    case 'text':
    case 'input_text':
      return ok(same ? part : { type: 'text', text: part['text'] ?? '', ...marks(part) });
    case 'refusal':
      return ok({ type: 'text', text: part['refusal'] ?? '' });
    case 'image_url':
      return writeImage(part, field);
    case 'file':
      return writeFile(part, field);
    default:
      if (same) return ok(part);
      return cannotTranslate(field, TO, `it has no block for a part of type ${wordOf(part['type'])}`, 'send it as text or as an image');
  }
}

function writeImage(part: JsonObject, field: string): Result<JsonObject> {
  const image = isObject(part['image_url']) ? part['image_url'] : { url: part['image_url'] ?? null };
  const url = textOf(image['url']) ?? '';
  if (!asksNothing(image['detail']) && image['detail'] !== 'auto') {
    return cannotTranslate(`${field}.image_url.detail`, TO, 'it has no levels of detail', 'leave detail out');
  }
  const data = readDataUrl(url);
  if (data !== null) {
    return ok({ type: 'image', source: { type: 'base64', media_type: data.mediaType, data: data.base64 }, ...marks(part) });
  }
  if (isLink(url)) return ok({ type: 'image', source: { type: 'url', url }, ...marks(part) });
  return cannotTranslate(`${field}.image_url.url`, TO, 'it takes links and base64 data URLs', 'send one of these');
}

function writeFile(part: JsonObject, field: string): Result<JsonObject> {
  const file = isObject(part['file']) ? part['file'] : {};
  const data = readDataUrl(textOf(file['file_data']) ?? '');
  const others = Object.keys(without(file, new Set(['file_data', 'filename'])));
  if (data === null || others.length > 0) {
    return cannotTranslate(field, TO, 'it takes files as base64 data URLs only', 'send file_data instead of an id or a link');
  }
  const source = { type: 'base64', media_type: data.mediaType, data: data.base64 };
  return ok({ type: 'document', source, ...compact({ title: file['filename'] ?? undefined }), ...marks(part) });
}
