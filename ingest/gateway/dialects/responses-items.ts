/** Output items of a Responses stream while they grow. An item's `done` event, and the finished response, replace what was gathered. */
import type { Json, JsonObject } from './dialect.ts';
import { isList, isObject, textOf } from './json.ts';

/** A text inside an item: which list it is in, and where. Calls have one text, `arguments` or `input`. */
export type Place = { readonly list: 'content' | 'summary' | 'arguments' | 'input'; readonly index: number };

export type ItemState = {
  json: JsonObject;
  done: boolean;
  /** Ordinal among the calls; -1 = no call. */
  readonly call: number;
  readonly texts: Map<string, { readonly place: Place; readonly kind: string; text: string }>;
};

/** Adds a piece to the text at `place`; `kind` names the type of part it makes. */
export function grow(item: ItemState, place: Place, kind: string, piece: string): void {
  const key = `${place.list}/${place.index}`;
  const known = item.texts.get(key);
  if (known === undefined) item.texts.set(key, { place, kind, text: piece });
  else known.text += piece;
}

export function saidAt(item: ItemState, place: Place): string {
  return item.texts.get(`${place.list}/${place.index}`)?.text ?? '';
}

/** The item as it stands. */
export function currentItem(item: ItemState): JsonObject {
  if (item.done || item.texts.size === 0) return item.json;
  const json: Record<string, Json> = { ...item.json };
  for (const { place, kind, text } of item.texts.values()) {
    if (place.list === 'arguments' || place.list === 'input') {
      json[place.list] = text;
      continue;
    }
    const before = json[place.list];
    const parts: Json[] = isList(before) ? [...before] : [];
    const part = parts[place.index];
    const field = kind === 'refusal' ? 'refusal' : 'text';
    parts[place.index] = { ...(isObject(part) ? part : { type: kind }), [field]: text };
    json[place.list] = [...parts].map((one) => one ?? { type: kind, text: '' });
  }
  return json;
}

/** All texts of a finished item, in reading order. */
export function placesOf(json: JsonObject): { readonly place: Place; readonly kind: string; readonly text: string }[] {
  const listed = (['summary', 'content'] as const).flatMap((list) =>
    (isList(json[list]) ? json[list] : []).flatMap((part, index) => {
      if (!isObject(part)) return [];
      const text = textOf(part['text']) ?? textOf(part['refusal']);
      return text === null ? [] : [{ place: { list, index }, kind: textOf(part['type']) ?? '', text }];
    }),
  );
  const own = (['arguments', 'input'] as const).flatMap((list) => {
    const text = textOf(json[list]);
    return text === null ? [] : [{ place: { list, index: 0 }, kind: list, text }];
  });
  return [...listed, ...own];
}
