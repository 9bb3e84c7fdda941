/** Which events are delivered again, and in which order. */
import { TapedeckError } from '../../../base/errors.ts';
import type { BlobStore } from '../../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../../store/columns/column-store.ts';
import { FEEDS_PARTITION_BASE } from '../../../store/columns/projections/position.ts';
import type { EventLog } from '../../../store/log/event-log.ts';
import { slicesAt, whole, type Wanted } from '../../operations/rollout-events.ts';

export type Selection = {
  readonly project: string;
  readonly run?: string | undefined;
  readonly rollout?: string | undefined;
  /** Microseconds of the producers' clocks: from <= time < to. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
};

/** Where a delivery stands: for each partition that has given something, the offset of its last event. */
export type Place = ReadonlyMap<number, number>;

export type Delivered = {
  /** The original bytes, large values put back. */
  readonly slice: Uint8Array;
  /** The producer's clock, microseconds. */
  readonly time: number;
  /** Place of the delivery behind this event. */
  readonly place: Place;
};

export type DeliveryPorts = { readonly store: ColumnStore; readonly log: EventLog; readonly blobs: BlobStore };

type Row = { readonly offset: string; readonly bytes: number; readonly micros: string };
type Head = {
  readonly partition: number;
  readonly offset: number;
  readonly slice: Uint8Array;
  readonly time: number;
  readonly due: number;
};

const PAGE_ROWS = 2_000;

/**
 * Every stored event once. Inside a partition (so inside a rollout) in the order of the log; between partitions by time, where an event never comes before one
 * that stands before it in its partition. Holds a page of positions and some records per partition.
 */
export async function* selectedEvents(
  selection: Selection,
  after: Place,
  ports: DeliveryPorts,
  signal: AbortSignal,
): AsyncGenerator<Delivered> {
  const place = new Map(after);
  const sources = Array.from({ length: ports.log.partitions }, (_, partition) =>
    partitionEvents(selection, partition, after.get(partition) ?? -1, ports, signal),
  );
  const heads: (Head | null)[] = await Promise.all(sources.map(nextOf));
  for (;;) {
    const next = heads.reduce<Head | null>((best, head) => (head !== null && (best === null || head.due < best.due) ? head : best), null);
    if (next === null) return;
    place.set(next.partition, next.offset);
    yield { slice: next.slice, time: next.time, place: new Map(place) };
    heads[next.partition] = await nextOf(sources[next.partition] as AsyncGenerator<Head>);
  }
}

async function nextOf(source: AsyncGenerator<Head>): Promise<Head | null> {
  const { value, done } = await source.next();
  return done === true ? null : value;
}

async function* partitionEvents(
  selection: Selection,
  partition: number,
  after: number,
  { store, log, blobs }: DeliveryPorts,
  signal: AbortSignal,
): AsyncGenerator<Head> {
  let last = after;
  let due = 0;
  for (;;) {
    const rows = await store.rows<Row>(positionsSql(selection), {
      params: { ...selection, partition, after: last, limit: PAGE_ROWS },
      signal,
    });
    const times = new Map(rows.map((row) => [Number(row.offset), Number(row.micros)]));
    const places: Wanted[] = rows.map(({ offset, bytes }) => ({ partition, offset: Number(offset), bytes: Number(bytes) }));
    for await (const record of slicesAt(log, places, signal)) {
      const time = times.get(record.offset) as number;
      due = Math.max(due, time);
      for await (const slice of whole([record.value], blobs, signal)) yield { partition, offset: record.offset, slice, time, due };
    }
    if (rows.length < PAGE_ROWS) return;
    last = (places.at(-1) as Wanted).offset;
  }
}

/** Rows of partitions of other topics are never asked for. */
function positionsSql({ run, rollout, from, to }: Selection): string {
  const where = [
    'project = {project:String}',
    "status = 'stored'",
    '_partition = {partition:UInt16}',
    'toInt64(_offset) > {after:Int64}',
    ...(run === undefined ? [] : ['run = {run:String}']),
    ...(rollout === undefined ? [] : ['rollout = {rollout:String}']),
    ...(from === undefined ? [] : ["time >= fromUnixTimestamp64Micro({from:Int64}, 'UTC')"]),
    ...(to === undefined ? [] : ["time < fromUnixTimestamp64Micro({to:Int64}, 'UTC')"]),
  ];
  return (
    `SELECT _offset AS offset, bytes, toUnixTimestamp64Micro(assumeNotNull(time)) AS micros FROM log_index FINAL WHERE ${where.join(' AND ')} ` +
    'ORDER BY _offset LIMIT {limit:UInt32} SETTINGS use_skip_indexes_if_final = 1'
  );
}

/** `0.15,3.2`: partition and offset. */
export function placeText(place: Place): string {
  return [...place].map(([partition, offset]) => `${partition}.${offset}`).join(',');
}

/** Throws `invalid_cursor`. */
export function readPlace(text: string): Place {
  const place = new Map<number, number>();
  if (text === '') return place;
  for (const part of text.split(',')) {
    const found = /^(\d{1,5})\.(\d{1,15})$/.exec(part);
    if (found === null || Number(found[1]) >= FEEDS_PARTITION_BASE || place.has(Number(found[1]))) {
      throw new TapedeckError(
        'invalid_cursor',
        `"${text.slice(0, 100)}" is no place of a delivery: send the id of the last event that came, as it was`,
      );
    }
    place.set(Number(found[1]), Number(found[2]));
  }
  return place;
}
