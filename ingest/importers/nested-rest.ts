/**
 * What a document says beyond another one that was rebuilt of it, as a value that leads back: `kept` holds the fields that differ or are missing, `absent` names those
 * that the document does not have, `inside` the same of records, and of lists of as many records, that both have. Pure.
 */
import { isList, isRecord, itemsOf, sameJson, textOf, type Json, type JsonRecord } from './json-value.ts';

/** Null when the two are the same document. */
export function nestedRest(original: JsonRecord, rebuilt: JsonRecord): JsonRecord | null {
  const kept: [string, Json][] = [];
  const inside: [string, Json][] = [];
  for (const [key, value] of Object.entries(original)) {
    const other = Object.hasOwn(rebuilt, key) ? rebuilt[key] : undefined;
    if (other !== undefined && sameJson(value, other)) continue;
    const rest = insideRest(value, other);
    if (rest === null) kept.push([key, value]);
    else inside.push([key, rest]);
  }
  const absent = Object.keys(rebuilt).filter((key) => !Object.hasOwn(original, key));
  if (kept.length + inside.length + absent.length === 0) return null;
  return {
    ...(kept.length > 0 && { kept: Object.fromEntries(kept) }),
    ...(absent.length > 0 && { absent }),
    ...(inside.length > 0 && { inside: Object.fromEntries(inside) }),
  };
}

/** Null where the two cannot be compared inside. */
function insideRest(value: Json, other: Json | undefined): Json {
  if (isRecord(value) && isRecord(other)) return nestedRest(value, other);
  const comparable = isList(value) && isList(other) && value.length === other.length && value.length > 0;
  if (!comparable || !value.every(isRecord) || !other.every(isRecord)) return null;
  return value.map((item, i) => nestedRest(item as JsonRecord, other[i] as JsonRecord));
}

/** The document again; anything that is no rest changes nothing. */
export function withNestedRest(rebuilt: JsonRecord, rest: Json | undefined): JsonRecord {
  if (!isRecord(rest)) return rebuilt;
  const absent = new Set(itemsOf(rest['absent']).map(textOf));
  const kept = isRecord(rest['kept']) ? rest['kept'] : {};
  const inside = isRecord(rest['inside']) ? rest['inside'] : {};
  const present = Object.entries(rebuilt).filter(([key]) => !absent.has(key));
  const added = Object.entries(kept).filter(([key]) => !present.some(([name]) => name === key));
  // fromEntries defines own keys, so that `__proto__` stays data
  return Object.fromEntries<Json>([
    ...present.map(([key, value]): [string, Json] => [
      key,
      Object.hasOwn(kept, key) ? (kept[key] as Json) : restInside(value, inside, key),
    ]),
    ...added,
  ]);
}

function restInside(value: Json, inside: JsonRecord, key: string): Json {
  const rest = Object.hasOwn(inside, key) ? inside[key] : undefined;
  if (isRecord(value)) return withNestedRest(value, rest);
  if (!isList(value) || !isList(rest)) return value;
  return value.map((item, i) => (isRecord(item) ? withNestedRest(item, rest[i]) : item));
}
