/**
 * The plan of one request: what becomes of each item, and which bytes go to which partition. Pure: no I/O, no history. Records are slices of the
 * body (or of the transcoded body); only events that held values too large for the log are copied.
 */
import type { ByteWriter } from '../base/byte-writer.ts';
import { isTapedeckError, type ErrorCode } from '../base/errors.ts';
import { ok, type Problem, type Result } from '../base/result.ts';
import { checkEvent } from '../events/check.ts';
import { externalize } from '../events/codec/blob-tags.ts';
import { decodeCbor } from '../events/codec/cbor-decode.ts';
import { contentHash } from '../events/content-hash.ts';
import type { Envelope } from '../events/envelope.ts';
import { partitionKey } from '../events/partition-key.ts';
import { itemRefusal, withProject, type WriterAccess } from './accept-access.ts';
import { EVENT_TYPES, isEventType, type Topic } from '../events/registry.ts';
import { partitionOf } from '../store/log/partitioner.ts';
import type { AcceptLimits } from './accept-limits.ts';
import type { Media } from './accept-media.ts';
import { producerOf, type Producer } from './accept-sequence.ts';
import { isProblem, splitBody, STEP_BYTES } from './accept-split.ts';
import type { Tombstones } from './accept-tombstones.ts';

/** Why one item was not taken. `id` is null when the event's id could not be read. */
export type Rejection = {
  readonly index: number;
  readonly id: string | null;
  readonly code: ErrorCode;
  readonly message: string;
  readonly field?: string;
};

export type Blob = { readonly content: Uint8Array; readonly sha256: string; readonly mediaType: string };

/** One item that may be appended. */
export type PlannedRecord = {
  readonly index: number;
  readonly id: string;
  /** Label for metrics: a known type, or `unknown`. */
  readonly type: string;
  readonly event: Pick<Envelope, 'project' | 'run'>;
  readonly topic: Topic;
  readonly partition: number;
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly blobs: readonly Blob[];
};

/** One place in a producer's numbering; `record` is null when the item was refused (a refused event uses up its number). */
export type Numbered = { readonly index: number; readonly producer: Producer; readonly record: PlannedRecord | null };

export type Plan = {
  /** Items in the request. */
  readonly items: number;
  readonly records: readonly PlannedRecord[];
  readonly duplicates: number;
  readonly rejected: readonly Rejection[];
  /** Accepted into the log, but not projected by this version. */
  readonly deadLettered: readonly Rejection[];
  /** Items with a producer, in order of the body. */
  readonly numbered: readonly Numbered[];
  /** Indexes of items whose producer could not be read: each may hide one number. */
  readonly unreadable: readonly number[];
};

export type PlanRules = {
  readonly limits: AcceptLimits;
  readonly partitions: number;
  /** Partitions of the feeds log, or null when feed events are refused. */
  readonly feedPartitions: number | null;
  readonly tombstones: Tombstones;
  /** What the key of the request allows; null: everything. */
  readonly access?: WriterAccess | null;
};

type Drafting = {
  readonly rules: PlanRules;
  readonly records: PlannedRecord[];
  readonly rejected: Rejection[];
  readonly deadLettered: Rejection[];
  readonly numbered: Numbered[];
  readonly unreadable: number[];
  /** By id: the first record with it, and its bytes as they came. */
  readonly byId: Map<string, { readonly record: PlannedRecord; readonly slice: Uint8Array }>;
  readonly routes: Record<Topic, Map<string, Route>>;
  duplicates: number;
};
type Route = { readonly key: Uint8Array; readonly partition: number };

/** Plans `body`, in steps (see `splitBody`). The error is about the body as a whole: then nothing of it may be stored. */
export function* planEvents(body: Uint8Array, media: Media, rules: PlanRules, writer: ByteWriter): Generator<void, Result<Plan>> {
  const split = yield* splitBody(body, media, rules.limits.items, writer);
  if (!split.ok) return split;
  const { bytes, ranges } = split.value;
  const draft: Drafting = {
    rules,
    records: [],
    rejected: [],
    deadLettered: [],
    numbered: [],
    unreadable: [],
    byId: new Map(),
    routes: { events: new Map(), feeds: new Map() },
    duplicates: 0,
  };
  let stepAt = STEP_BYTES;
  for (let index = 0; index < ranges.length; index++) {
    const range = ranges[index] as (typeof ranges)[number];
    if (isProblem(range)) {
      reject(draft, index, null, range);
      draft.unreadable.push(index);
      continue;
    }
    planItem(draft, index, bytes, range.start, range.end);
    if (range.end > stepAt) {
      stepAt = range.end + STEP_BYTES;
      yield;
    }
  }
  const { records, duplicates, rejected, deadLettered, numbered, unreadable } = draft;
  return ok({ items: ranges.length, records, duplicates, rejected, deadLettered, numbered, unreadable });
}

function planItem(draft: Drafting, index: number, bytes: Uint8Array, start: number, end: number): void {
  let value: unknown;
  try {
    value = decodeCbor(bytes, start, end);
  } catch (error) {
    if (!isTapedeckError(error)) throw error;
    reject(draft, index, null, error);
    draft.unreadable.push(index);
    return;
  }
  const slice = withProject(value, bytes.subarray(start, end), draft.rules.access ?? null);
  const record = recordOf(draft, index, value, slice);
  const producer = producerOf(value);
  if (producer === 'unreadable') draft.unreadable.push(index);
  else if (producer !== null) draft.numbered.push({ index, producer, record });
}

/** Checks one decoded event and routes it; null when it was refused or was a copy of an earlier item. */
function recordOf(draft: Drafting, index: number, value: unknown, slice: Uint8Array): PlannedRecord | null {
  const checked = checkEvent(value);
  if (!checked.ok && checked.error.code !== 'unknown_type') return reject(draft, index, readableId(value), checked.error);
  const event = value as Envelope;
  const known = checked.ok && isEventType(event.type);
  const topic = known ? EVENT_TYPES[event.type as keyof typeof EVENT_TYPES].topic : 'events';
  const refusal = itemRefusal(event, draft.rules.access ?? null) ?? refusalOf(draft.rules, event, topic);
  if (refusal !== null) return reject(draft, index, event.id, refusal);
  const sized = fit(draft.rules.limits, slice);
  if (!sized.ok) return reject(draft, index, event.id, sized.error);
  const route = routeOf(draft, event, topic);
  const record: PlannedRecord = {
    index, id: event.id, type: known ? event.type : 'unknown', event: scopeOf(event), topic, ...route, value: sized.value.slice, blobs: sized.value.blobs,
  }; // prettier-ignore
  if (isRepeated(draft, record, slice)) return null;
  if (!checked.ok) draft.deadLettered.push(rejection(index, event.id, checked.error));
  draft.records.push(record);
  return record;
}

/** What is asked of an event after it was planned: the rest of it is free to go before its request is answered. */
function scopeOf({ project, run }: Envelope): Pick<Envelope, 'project' | 'run'> {
  return { project, run };
}

function refusalOf(rules: PlanRules, event: Envelope, topic: Topic): Problem | null {
  if (topic === 'feeds' && rules.feedPartitions === null) {
    return { code: 'bad_request', message: `${event.type} is a decision of a trainer feed; only the feed itself writes it`, field: 'type' };
  }
  if (event.type !== 'run.deleted' && rules.tombstones.has(event.project, event.run)) {
    return { code: 'run_deleted', message: 'this run was deleted for ever; record under another run id', field: 'run' };
  }
  return null;
}

/** Moves large values out, then holds the rest against the record limit. */
function fit(limits: AcceptLimits, slice: Uint8Array): Result<{ slice: Uint8Array; blobs: readonly Blob[] }> {
  const small = externalize(slice, limits.valueBytes, limits.opaqueBytes);
  const fitted = small ?? { slice, blobs: [] };
  if (fitted.slice.length <= limits.eventBytes) return ok(fitted);
  const message =
    `the event has ${fitted.slice.length} bytes, the limit is ${limits.eventBytes} after values over ${limits.valueBytes} bytes were moved to the blob store; ` +
    'split it into several events, or put what is long into one string, byte string or typed array';
  return { ok: false, error: { code: 'event_too_large', message } };
}

function routeOf(draft: Drafting, event: Envelope, topic: Topic): Route {
  const text = partitionKey(event, topic);
  const known = draft.routes[topic].get(text);
  if (known !== undefined) return known;
  const key = Buffer.from(text);
  const partitions = topic === 'feeds' ? (draft.rules.feedPartitions as number) : draft.rules.partitions;
  const route = { key, partition: partitionOf(key, partitions) };
  draft.routes[topic].set(text, route);
  return route;
}

/** An id of the same project that came earlier in this body: the same content is a duplicate, other content is refused. Elsewhere in the log: the projector's task. */
function isRepeated(draft: Drafting, record: PlannedRecord, slice: Uint8Array): boolean {
  const earlier = draft.byId.get(record.id);
  if (earlier === undefined || !isSamePlace(earlier.record, record)) {
    draft.byId.set(record.id, { record, slice });
    return false;
  }
  if (Buffer.compare(earlier.slice, slice) === 0 || sameContent(earlier.slice, slice)) draft.duplicates++;
  else {
    const message = `this id is that of item ${earlier.record.index}, which has other content; give every event an id of its own`;
    reject(draft, record.index, record.id, { code: 'id_reused', message, field: 'id' });
  }
  return true;
}

function isSamePlace(a: PlannedRecord, b: PlannedRecord): boolean {
  return a.topic === b.topic && a.partition === b.partition && a.event.project === b.event.project;
}

function sameContent(a: Uint8Array, b: Uint8Array): boolean {
  return contentHash(a).event === contentHash(b).event;
}

function reject(draft: Drafting, index: number, id: string | null, problem: Problem): null {
  draft.rejected.push(rejection(index, id, problem));
  return null;
}

export function rejection(index: number, id: string | null, { code, message, field }: Problem): Rejection {
  return field === undefined ? { index, id, code, message } : { index, id, code, message, field };
}

const MAX_ECHO = 64;
function readableId(value: unknown): string | null {
  const id = (value as { id?: unknown } | null)?.id;
  return typeof id === 'string' && id.length <= MAX_ECHO ? id : null;
}
