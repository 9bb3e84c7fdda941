import { Readable } from 'node:stream';
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { blobHandles, internalize } from '../../events/codec/blob-tags.ts';
import { writeText } from '../../events/codec/cbor-encode.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { logPartition } from '../../store/columns/projections/position.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { answerForms, jsonAnswer } from '../routes/answers/answer-schema.ts';
import { abortedWith } from './client-gone.ts';
import { parsed } from './parsed.ts';

export type RolloutEventsOptions = { readonly store: ColumnStore; readonly log: EventLog; readonly blobs: BlobStore };

const listQuery = z.strictObject({
  project: entityId.default(DEFAULT_PROJECT),
  after: z.string().default(''),
  limit: z.coerce.number().int().min(1).max(10_000).default(1000),
});
const eventsQuery = z.strictObject({ project: entityId.default(DEFAULT_PROJECT), run: entityId });
/** Where the stored events of a rollout lie, in log order. The table is ordered by position: the index by_rollout keeps this from reading all of it. */
export const POSITIONS =
  "SELECT _partition AS partition, _offset AS offset, bytes FROM log_index FINAL WHERE project = {project:String} AND run = {run:String} AND rollout = {rollout:String} AND status = 'stored' " +
  'ORDER BY _partition, _offset SETTINGS use_skip_indexes_if_final = 1';
/** The same for several rollouts at once, with the size of each record. */
export const POSITIONS_OF_MANY =
  "SELECT rollout, _partition AS partition, _offset AS offset, bytes FROM log_index FINAL WHERE project = {project:String} AND run = {run:String} AND rollout IN {rollouts:Array(String)} AND status = 'stored' " +
  'ORDER BY _partition, _offset SETTINGS use_skip_indexes_if_final = 1';
const READ_BYTES = 4 * 1024 * 1024;
const manyBody = z.strictObject({
  project: entityId.default(DEFAULT_PROJECT),
  run: entityId,
  rollouts: z.array(entityId).min(1).max(1000),
});
/** Records of several rollouts are held until each is complete: so many bytes of them at a time. */
const RAW = { validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify } as const;
const json = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
const inRun = z.strictObject({ run: entityId });
const inRollout = z.strictObject({ rollout: entityId });
const idList = z.object({ rollouts: z.array(z.string()), next: z.string().nullable().meta({ description: '`after` of the next page.' }) });
const SEQUENCE = answerForms('A CBOR sequence (RFC 8742)', { 'application/cbor-seq': null });
const LIST = {
  summary: 'List the rollouts of a run',
  tags: ['query'],
  params: json(inRun),
  querystring: json(listQuery),
  response: jsonAnswer('Ids, ascending', idList),
};
const EVENTS = {
  summary: 'The original events of a rollout',
  tags: ['query'],
  params: json(inRollout),
  querystring: json(eventsQuery),
  response: SEQUENCE,
};
const EVENTS_OF_MANY = { summary: 'The original events of several rollouts', tags: ['query'], body: json(manyBody), response: SEQUENCE };
const MANY_BYTES = 16 * 1024 * 1024;

/**
 * `GET /v1/runs/{run}/rollouts` pages through the ids of a run's rollouts in their order; `GET /v1/rollouts/{rollout}/events?run=` gives the original events of
 * one rollout in log order as a CBOR sequence (RFC 8742): each once, large values put back. `POST /v1/rollouts/events` gives those of several: a text and an array each,
 * of as many of them as fit in one answer.
 */
export const rolloutEventRoutes: FastifyPluginAsync<RolloutEventsOptions> = async (app, { store, log, blobs }) => {
  app.get('/v1/runs/:run/rollouts', { schema: LIST, ...RAW }, async (request, reply) => {
    const { run } = parsed(inRun, request.params);
    const { project, after, limit } = parsed(listQuery, request.query);
    const rows = await store.rows<{ rollout: string }>(
      'SELECT DISTINCT rollout FROM rollout_events WHERE project = {project:String} AND run = {run:String} AND rollout > {after:String} ORDER BY rollout LIMIT {limit:UInt32}',
      { params: { project, run, after, limit }, signal: abortedWith(reply) },
    );
    return { rollouts: rows.map((row) => row.rollout), next: rows.length === limit ? (rows.at(-1)?.rollout ?? null) : null };
  });

  app.get('/v1/rollouts/:rollout/events', { schema: EVENTS, ...RAW }, async (request, reply) => {
    const { rollout } = parsed(inRollout, request.params);
    const { project, run } = parsed(eventsQuery, request.query);
    const signal = abortedWith(reply);
    const places = await store.rows<Place>(POSITIONS, { params: { project, run, rollout }, signal });
    if (places.length === 0)
      throw new TapedeckError('not_found', `rollout ${rollout} of run ${run} has no stored events in project ${project}`);
    const slices = slicesAt(log, places.map((p) => placeOf(p)), signal); // prettier-ignore
    return reply.type('application/cbor-seq').send(Readable.from(whole(values(slices), blobs, signal), { objectMode: false }));
  });

  app.post('/v1/rollouts/events', { schema: EVENTS_OF_MANY, ...RAW, bodyLimit: 1024 * 1024 }, async (request, reply) => {
    const { project, run, rollouts } = parsed(manyBody, request.body);
    const signal = abortedWith(reply);
    const rows = await store.rows<Place & { rollout: string }>(POSITIONS_OF_MANY, { params: { project, run, rollouts }, signal });
    const sequence = manyRollouts(chosen(rollouts, rows), { log, blobs }, signal);
    return reply.type('application/cbor-seq').send(Readable.from(sequence, { objectMode: false }));
  });
};

/** The original events of a rollout in log order, each once, large values put back. */
export async function* rolloutSlices(
  { project, run, rollout }: { readonly project: string; readonly run: string; readonly rollout: string },
  { store, log, blobs }: RolloutEventsOptions,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const places = await store.rows<Place>(POSITIONS, { params: { project, run, rollout }, signal });
  const slices = slicesAt(log, places.map((place) => placeOf(place)), signal); // prettier-ignore
  yield* whole(values(slices), blobs, signal);
}

const RUN_STARTS =
  "SELECT _partition AS partition, _offset AS offset, bytes FROM log_index FINAL WHERE project = {project:String} AND run = {run:String} AND rollout = '' AND type = 'run.started' AND status = 'stored' " +
  'ORDER BY _partition, _offset SETTINGS use_skip_indexes_if_final = 1';

/** The `run.started` events of a run in log order. */
export async function* runStarts(
  { project, run }: { readonly project: string; readonly run: string },
  { store, log, blobs }: RolloutEventsOptions,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const places = await store.rows<Place>(RUN_STARTS, { params: { project, run }, signal });
  const slices = slicesAt(log, places.map((place) => placeOf(place)), signal); // prettier-ignore
  yield* whole(values(slices), blobs, signal);
}

type Place = { readonly partition: number; readonly offset: string; readonly bytes?: number };
/** A record by its place in the log. */
export type Wanted = { readonly partition: number; readonly offset: number; readonly bytes: number };

function placeOf({ partition, offset, bytes }: Place): Wanted {
  return {
    partition: logPartition(Number(partition)).partition,
    offset: Number(offset),
    bytes: bytes === undefined ? READ_BYTES : Number(bytes),
  };
}

/** As many of the rollouts, in their order, as fit in one answer; the first always does. */
function chosen(rollouts: readonly string[], rows: readonly (Place & { readonly rollout: string })[]): Map<string, Wanted[]> {
  const found = new Map<string, Wanted[]>(rollouts.map((rollout) => [rollout, []]));
  for (const row of rows) found.get(row.rollout)?.push(placeOf(row));
  let bytes = 0;
  let isFull = false;
  for (const [rollout, places] of found) {
    bytes += places.reduce((sum, place) => sum + place.bytes, 0);
    isFull ||= bytes > MANY_BYTES && rollout !== rollouts[0];
    if (isFull) found.delete(rollout);
  }
  return found;
}

/** Per rollout its id as a CBOR text and an array of indefinite length with its events, large values put back. Rollouts without events have an empty one. */
async function* manyRollouts(
  found: ReadonlyMap<string, readonly Wanted[]>,
  { log, blobs }: Pick<RolloutEventsOptions, 'log' | 'blobs'>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const owner = new Map<string, string>();
  for (const [rollout, places] of found) for (const { partition, offset } of places) owner.set(`${partition}/${offset}`, rollout);
  const all = [...found.values()].flat().toSorted((a, b) => a.partition - b.partition || a.offset - b.offset);
  const held = new Map<string, Uint8Array[]>([...found.keys()].map((rollout) => [rollout, []]));
  const [first] = held;
  if (held.size === 1 && first !== undefined) {
    yield opened(first[0]);
    yield* whole(values(slicesAt(log, all, signal)), blobs, signal);
    yield CLOSED;
    return;
  }
  for await (const { partition, offset, value } of slicesAt(log, all, signal))
    held.get(owner.get(`${partition}/${offset}`) as string)?.push(value);
  for (const [rollout, slices] of held) {
    yield opened(rollout);
    yield* whole(slices, blobs, signal);
    yield CLOSED;
  }
}

const CLOSED = Uint8Array.of(0xff);

function opened(rollout: string): Uint8Array {
  const head = new ByteWriter(300);
  writeText(rollout, head);
  head.byte(0x9f);
  return head.take();
}

async function* values(records: AsyncIterable<{ readonly value: Uint8Array }>): AsyncGenerator<Uint8Array> {
  for await (const { value } of records) yield value;
}

/** Gaps up to this many records are read over rather than around. */
const GAP = 64;

/** The records at these places, which are in order: neighbours are read together, gaps are skipped, and no more is read than is wanted. */
export async function* slicesAt(
  log: EventLog,
  places: readonly Wanted[],
  signal: AbortSignal,
): AsyncGenerator<{ readonly partition: number; readonly offset: number; readonly value: Uint8Array }> {
  let at = 0;
  while (at < places.length) {
    const { partition, offset } = places[at] as Wanted;
    const { records } = await log.read(partition, offset, { maxBytes: stretch(places, at), signal });
    const before = at;
    for (const record of records) {
      const wanted = places[at];
      if (wanted === undefined || wanted.partition !== partition) break;
      if (record.offset !== wanted.offset) continue;
      yield { partition, offset: record.offset, value: record.value };
      at++;
    }
    if (at === before) throw new TapedeckError('log_corrupt', `the log no longer holds offset ${offset} of partition ${partition}`);
  }
}

/** Bytes from one place to the end of its neighbourhood: records in small gaps are taken to be as large as the others. */
function stretch(places: readonly Wanted[], from: number): number {
  const { partition, offset, bytes } = places[from] as Wanted;
  let [sum, last, end] = [bytes, offset, from + 1];
  for (; end < places.length && sum < READ_BYTES; end++) {
    const next = places[end] as Wanted;
    if (next.partition !== partition || next.offset - last > GAP) break;
    sum += next.bytes;
    last = next.offset;
  }
  const records = end - from;
  return Math.min(READ_BYTES, Math.ceil((sum / records) * (last - offset + 1)) + 1024);
}

/** Records with their large values put back. */
export async function* whole(
  slices: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  blobs: BlobStore,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const slice of slices)
    yield blobHandles(slice).length === 0 ? slice : await internalize(slice, (sha256) => blobs.get(sha256, signal));
}
