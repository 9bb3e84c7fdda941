/** Content of messages and of tool results in the Responses dialect to neutral parts and back. */
import { ok, type Result } from '../../../base/result.ts';
import type { Json } from './dialect.ts';
import { compact, isList, isObject, textOf, without, wordOf } from './json.ts';
import { asksNothing, cannotTranslate } from './refusals.ts';

const TO = 'openai.responses';

/** A text, null, or a list of parts; one plain text part is its text. */
export function readResponsesContent(content: Json | undefined): Json {
  if (!isList(content)) return content ?? null;
  const parts = content.map(readPart);
  const [only] = parts;
  return parts.length === 1 && isObject(only) && only['type'] === 'text' && Object.keys(only).length === 2 ? (only['text'] as Json) : parts;
}

/** Text, images and files with their data become chat parts; everything else stays the part it is. */
function readPart(part: Json): Json {
  if (!isObject(part)) return part;
  switch (part['type']) {
    case 'input_text':
    case 'output_text':
      return compact({
        type: 'text',
        text: part['text'] ?? '',
        annotations: asksNothing(part['annotations']) ? undefined : part['annotations'],
      });
    case 'input_image': {
      const url = part['image_url'];
      if (typeof url !== 'string' || !asksNothing(part['file_id'])) return part;
      const detail = asksNothing(part['detail']) || part['detail'] === 'auto' ? undefined : part['detail'];
      return { type: 'image_url', image_url: compact({ url, detail }) };
    }
    case 'input_file': {
      const others = Object.entries(part).filter(([key, value]) => !FILE_KEYS.has(key) && !asksNothing(value));
      if (typeof part['file_data'] !== 'string' || others.length > 0) return part;
      return { type: 'file', file: compact({ filename: part['filename'] ?? undefined, file_data: part['file_data'] }) };
    }
    default:
      return part;
  }
}

const FILE_KEYS: ReadonlySet<string> = new Set(['type', 'file_data', 'filename']);

/** A text where it is one, else input parts. `same` = it was read from this dialect, so that unknown parts go back as they came. */
export function writeResponsesContent(content: Json, field: string, same: boolean): Result<Json> {
  if (!isList(content)) return ok(textOf(content) ?? '');
  const parts: Json[] = [];
  for (const [i, part] of content.entries()) {
    const written = writePart(part, `${field}[${i}]`, same);
    if (!written.ok) return written;
    parts.push(written.value);
  }
  return ok(parts);
}

function writePart(part: Json, field: string, same: boolean): Result<Json> {
  if (!isObject(part)) return cannotTranslate(field, TO, 'a part must be an object', 'send a list of parts');
  switch (part['type']) {
    case 'text':
      return ok({ type: 'input_text', text: part['text'] ?? '' });
    case 'image_url': {
      const image = isObject(part['image_url']) ? part['image_url'] : { url: part['image_url'] ?? null };
      return ok({ type: 'input_image', image_url: image['url'] ?? '', detail: image['detail'] ?? 'auto' });
    }
    case 'file': {
      const file = isObject(part['file']) ? part['file'] : {};
      return ok({ type: 'input_file', ...file });
    }
    case 'input_audio':
      return ok(without(part, new Set(['cache_control'])));
    default:
      if (same) return ok(part);
      return cannotTranslate(field, TO, `it has no part of type ${wordOf(part['type'])}`, 'send it as text or as an image');
  }
}
