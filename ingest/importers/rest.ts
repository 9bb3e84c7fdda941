/**
 * What a record says beyond its event, kept in `extra` so that the record can be written back exactly: `verifiers` holds the fields that the event
 * does not give back with the same value, `absent` names the fields that the way back would add although the record did not have them.
 */
import { isRecord, sameJson, textOf, type Json, type JsonRecord } from './json-value.ts';

export type Rest = { readonly verifiers?: JsonRecord; readonly absent?: readonly string[] };

/** Compares a record with what the way back makes of its event. */
export function restOf(original: JsonRecord, rebuilt: JsonRecord): Rest {
  const kept = Object.entries(original).filter(([key, value]) => !Object.hasOwn(rebuilt, key) || !sameJson(value, rebuilt[key]));
  const absent = Object.keys(rebuilt).filter((key) => !Object.hasOwn(original, key));
  return { ...(kept.length > 0 && { verifiers: Object.fromEntries(kept) }), ...(absent.length > 0 && { absent }) };
}

/** The record as it was: what the event gives, without the absent fields, under the kept ones. */
export function withRest(rebuilt: JsonRecord, extra: Json | undefined): JsonRecord {
  if (!isRecord(extra)) return rebuilt;
  const absent = new Set(Array.isArray(extra['absent']) ? (extra['absent'] as readonly Json[]).map(textOf) : []);
  const kept = isRecord(extra['verifiers']) ? extra['verifiers'] : {};
  // fromEntries defines own keys, so that `__proto__` stays data
  return Object.fromEntries([...Object.entries(rebuilt).filter(([key]) => !absent.has(key)), ...Object.entries(kept)]);
}

/** `extra` of an event, or undefined when there is nothing to keep. */
export function extraOf(...rests: readonly (Rest | JsonRecord)[]): JsonRecord | undefined {
  const extra = Object.assign({}, ...rests) as JsonRecord;
  return Object.keys(extra).length > 0 ? extra : undefined;
}

/** Lists that the record does not have at all are remembered: the way back would write them empty. */
export function withAbsent(rest: Rest, record: JsonRecord, lists: readonly string[]): Rest {
  const absent = [...(rest.absent ?? []), ...lists.filter((key) => !Object.hasOwn(record, key))];
  return absent.length > 0 ? { ...rest, absent } : rest;
}
