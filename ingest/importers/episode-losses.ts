/**
 * What a v1 episode did not take over from the events of a rollout: the episode is imported again, and each field that does not come back is lost. So the list is true by
 * construction, whatever the format learns. Pure.
 */
import { PackedArray } from '../../events/packed-array.ts';
import type { ExactEvent } from './exact-event.ts';
import { isList, isRecord, numberOf, sameJson, type Json, type JsonRecord } from './json-value.ts';

/** Of these the first event of an entity counts, of all others the last. */
const FIRST_COUNTS: ReadonlySet<string> = new Set([
  'node.appended',
  'call.recorded',
  'trace.started',
  'rollout.started',
  'tool.recorded',
  'link.added',
]);
/** Where a file has no place for the whole event it is counted by its type; these come back as events of their own, or not at all. */
const WHOLE: ReadonlySet<string> = new Set(['tool.recorded', 'link.added']);
/** What the importer keeps beside an event, so that a record can be written back exactly. */
const KEPT_ASIDE: ReadonlySet<string> = new Set(['verifiers', 'absent', 'doubles']); // prettier-ignore

/** `<type>: <field>` to how many events lost it; the type alone where an event is lost as a whole. Fields of nested objects are `tokens.policyRuns`. */
export function lossesOf(original: readonly ExactEvent[], again: readonly ExactEvent[]): Map<string, number> {
  const losses = new Map<string, number>();
  const count = (what: string, times = 1): void => void losses.set(what, (losses.get(what) ?? 0) + times);
  const only = onlyTrace(original);
  const returned = new Map(again.map((event) => [keyOf(event, null), event]));
  const entities = Map.groupBy(original, (event) => keyOf(event, only));
  entities.delete(null);
  for (const [key, events] of entities) {
    const counting = (FIRST_COUNTS.has(events[0]?.type ?? '') ? events[0] : events.at(-1)) as ExactEvent;
    const { type } = counting;
    if (!FIRST_COUNTS.has(type) && events.length > 1) count(`${type}: replaced by a later one`, events.length - 1);
    const found = returned.get(key);
    if (found !== undefined) for (const field of lostFields(counting.data, found.data)) count(`${type}: ${field}`);
    else if (WHOLE.has(type)) count(type);
  }
  return losses;
}

/** The trace that values about the rollout are put at, where there is one trace only. */
function onlyTrace(events: readonly ExactEvent[]): string | null {
  const traces = new Set(events.flatMap(({ trace }) => (trace === null ? [] : [trace])));
  return traces.size === 1 ? ([...traces][0] as string) : null;
}

/** What an event is about; null for events that are not compared. */
function keyOf({ type, trace, data }: ExactEvent, only: string | null): string | null {
  switch (type) {
    case 'rollout.started':
    case 'rollout.ended':
      return type;
    case 'trace.started':
    case 'trace.ended':
      return JSON.stringify([type, trace]);
    case 'node.appended':
    case 'call.recorded':
      return JSON.stringify([type, trace, numberOf(data['index'])]);
    case 'tool.recorded':
      return JSON.stringify([type, trace, data['toolCallId']]);
    case 'link.added':
      return JSON.stringify([type, data['type'], data['from'], data['to']]);
    case 'reward.assigned':
    case 'metric.recorded':
      if (data['scope'] === 'trace') return JSON.stringify([type, trace, data['name']]);
      return data['scope'] === 'rollout' && only !== null ? JSON.stringify([type, only, data['name']]) : null;
    default:
      return null;
  }
}

function lostFields(before: JsonRecord, after: JsonRecord): string[] {
  return Object.entries(before).flatMap(([field, value]) => {
    // a value about the rollout is put at its trace
    if (field === 'scope' || isNothing(value)) return [];
    const other = after[field];
    if (field === 'extra') return isRecord(value) && Object.keys(value).some((key) => !KEPT_ASIDE.has(key)) ? ['extra'] : [];
    if (!isRecord(value) || !isRecord(other)) return same(value, other) ? [] : [field];
    return Object.entries(value).flatMap(([inner, its]) => (isNothing(its) || same(its, other[inner]) ? [] : [`${field}.${inner}`]));
  });
}

function isNothing(value: Json | undefined): boolean {
  return value === null || value === undefined;
}

/** Equal by value: whether a number was written 1 or 1.0 says nothing here. */
function same(a: Json | undefined, b: Json | undefined): boolean {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== null || y !== null) return Object.is(x, y);
  if (a instanceof PackedArray || b instanceof PackedArray) return sameJson(a, b);
  if (isList(a) && isList(b)) return a.length === b.length && a.every((item, place) => same(item, b[place]));
  if (isRecord(a) && isRecord(b)) return Object.entries(a).every(([key, value]) => isNothing(value) || same(value, b[key]));
  return sameJson(a, b);
}
