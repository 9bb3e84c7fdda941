/**
 * What a run said about itself (run.started, run.ended), as of the end of the log: the column store as far as the projector has come, and behind that the tail of
 * the run's log partition. So a run is known from the moment its event is durable, also after a restart.
 */
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { blobHandles, internalize } from '../../events/codec/blob-tags.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { numberOf, recordOf, type Json, type JsonRecord } from '../importers/json-value.ts';
import { jsonReader } from '../importers/read-json.ts';
import { storeRows } from './store-rows.ts';

/** One event; `time` in microseconds, `data` as sent (fields that the table keeps). */
export type RunEvent = {
  readonly offset: number;
  readonly type: 'run.started' | 'run.ended';
  readonly time: number;
  readonly data: JsonRecord;
};

export type RunEventsPorts = { readonly store: ColumnStore; readonly log: EventLog; readonly blobs: BlobStore; readonly clock: Clock };

const READ_BYTES = 4 * 1024 * 1024;
/** The whole look-up; a tail that takes longer is answered with "send again". */
const LOOKUP_MS = 20_000;

/** In order of the log. Throws `deadline_exceeded` and what the store or the log throw. */
export async function readRunEvents(project: string, run: string, ports: RunEventsPorts): Promise<RunEvent[]> {
  const { store, log, clock } = ports;
  return withDeadline(clock, LOOKUP_MS, 'what is known of the run', async (signal) => {
    const partition = partitionOf(Buffer.from(run), log.partitions);
    // the position first: facts are stored before it
    const from = await storedUpTo(store, partition, signal);
    const stored = await storedEvents(store, project, run, signal);
    const known = new Set(stored.map(({ offset }) => offset));
    const tail = await tailEvents(partition, from, { project, run }, ports, signal);
    return [...stored, ...tail.filter(({ offset }) => !known.has(offset))].toSorted((a, b) => a.offset - b.offset);
  });
}

async function storedUpTo(store: ColumnStore, partition: number, signal: AbortSignal): Promise<number> {
  const rows = await storeRows<{ next: string }>(
    store,
    'SELECT toUInt64(_offset + 1) AS next FROM log_index WHERE _partition = {partition:UInt16} ORDER BY _partition DESC, _offset DESC LIMIT 1',
    { params: { partition }, signal },
  );
  return Number(rows[0]?.next ?? 0);
}

type Row = Readonly<Record<'kind' | 'name' | 'model' | 'config' | 'envs' | 'tags' | 'status' | 'metrics' | 'extra', string | null>> & {
  readonly type: RunEvent['type'];
  readonly at: string;
  readonly until: string | null;
  readonly offset: string;
};

async function storedEvents(store: ColumnStore, project: string, run: string, signal: AbortSignal): Promise<RunEvent[]> {
  const rows = await storeRows<Row>(
    store,
    'SELECT type, kind, name, model, config, envs, tags, status, metrics, extra, toUnixTimestamp64Micro(time) AS at, toUnixTimestamp64Micro(ended) AS until, toUInt64(_offset) AS offset ' +
      'FROM run_events FINAL WHERE project = {project:String} AND run = {run:String} ORDER BY _partition, _offset',
    { params: { project, run }, signal },
  );
  return rows.map(({ type, at, until, offset, kind, name, model, status, ...texts }) => {
    const parsed = Object.entries(texts).flatMap(([key, text]) => (text === null ? [] : [[key, jsonOf(text)] as const]));
    const plain = Object.entries({ kind, name, model, status, ended: until === null ? null : Number(until) }).filter(
      ([, value]) => value !== null,
    );
    return { offset: Number(offset), type, time: Number(at), data: Object.fromEntries<Json>([...(plain as [string, Json][]), ...parsed]) };
  });
}

function jsonOf(text: string): Json {
  const read = jsonReader()(Buffer.from(text));
  return read.ok ? read.value : text;
}

async function tailEvents(
  partition: number,
  from: number,
  wanted: { readonly project: string; readonly run: string },
  { log, blobs }: RunEventsPorts,
  signal: AbortSignal,
): Promise<RunEvent[]> {
  const found: RunEvent[] = [];
  const { first, end } = (await log.positions(signal))[partition] as { first: number; end: number };
  const key = Buffer.from(wanted.run);
  for (let at = Math.max(from, first); at < end;) {
    const chunk = await log.read(partition, at, { maxBytes: READ_BYTES, signal });
    for (const record of chunk.records) {
      if (!key.equals(record.key)) continue;
      const whole =
        blobHandles(record.value).length === 0 ? record.value : await internalize(record.value, (sha256) => blobs.get(sha256, signal));
      const event = runEventOf(decodeCbor(whole, 0, whole.length, { wholeFloats: true }) as JsonRecord, record.offset, wanted);
      if (event !== null) found.push(event);
    }
    at = chunk.next;
  }
  return found;
}

function runEventOf(
  event: JsonRecord,
  offset: number,
  { project, run }: { readonly project: string; readonly run: string },
): RunEvent | null {
  const { type, time, data } = event;
  if (event['run'] !== run || (event['project'] ?? DEFAULT_PROJECT) !== project) return null;
  if (type !== 'run.started' && type !== 'run.ended') return null;
  return { offset, type, time: numberOf(time) ?? 0, data: recordOf(data) ?? {} };
}
