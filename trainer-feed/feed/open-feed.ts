/** Opens a feed's state on this machine: the newest checkpoint with its row file, or an empty state at the feed's start. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { Floor } from './apply-decision.ts';
import { openBatchRows, type BatchRows } from './batch-rows.ts';
import { readCheckpoint, writeCheckpoint } from './checkpoint-file.ts';
import type { FeedIdentity } from './decision-state.ts';
import { foldOver, newFold, type FeedFold } from './fold.ts';
import { feedEventOf } from './read-topics.ts';
import { openRowFile, type RowFile, type SegmentState } from './row-file.ts';
import { admissionOf, type ResolvedFeedSpec } from './spec.ts';
import { decodePlain, encodePlain, plainState, stateFromPlain } from './state-codec.ts';

/** Where a feed comes from: its `feed.created` in the log. */
export type FeedOrigin = {
  readonly feed: string;
  readonly project: string;
  readonly resolved: ResolvedFeedSpec;
  /** Microseconds. */
  readonly created: number;
  /** Offset in `partition` of the feeds topic. */
  readonly offset: number;
  readonly partition: number;
  /** Where it starts to read the events topic. */
  readonly start: readonly number[];
  /** Where the events topic ended when it was created; null when that is not recorded. */
  readonly end: readonly number[] | null;
  /** The feed's own folder. */
  readonly directory: string;
};

export type FeedFiles = {
  readonly fold: FeedFold;
  readonly rows: RowFile;
  readonly batches: BatchRows;
  /** The feed's own clock: how long it has run in all, microseconds. */
  readonly uptime: () => number;
  /** Writes a checkpoint of the state as it is when this is called; one at a time. It is durable when this resolves. */
  readonly checkpoint: () => Promise<void>;
  /** Removes checkpoints and row file: they cannot be used. */
  readonly discard: () => Promise<void>;
  readonly close: () => void;
};

type Ports = {
  readonly clock: Clock;
  readonly feeds: EventLog;
  readonly blobs: BlobStore;
  readonly partitions: number;
  /** Nothing above this batch is forgotten while the log's past is folded, from its beginning; null = an ordinary fold. */
  readonly forgetNothingAbove: number | null;
};

/** Throws `partition_count_changed` when the log has another number of partitions than the feed started with. */
export async function openFeedFiles(origin: FeedOrigin, ports: Ports, signal: AbortSignal): Promise<FeedFiles> {
  if (origin.start.length !== ports.partitions) {
    throw new TapedeckError(
      'partition_count_changed',
      `feed ${origin.feed} was created over ${origin.start.length} partitions, the log has ${ports.partitions}: set them back`,
    );
  }
  const places = { checkpoints: join(origin.directory, 'checkpoints'), rows: join(origin.directory, 'rows') };
  const discard = async (): Promise<void> => {
    await rm(places.checkpoints, { recursive: true, force: true });
    await rm(places.rows, { recursive: true, force: true });
  };
  const batches = await openBatchRows(join(origin.directory, 'batches'));
  const above = ports.forgetNothingAbove;
  const restored = above === null ? await restore(origin, places) : null;
  if (restored === null) await discard();
  const { fold, rows, sequence } = restored ?? (await begin(origin, ports, places.rows, above, signal));
  let next = sequence + 1;
  const ranBefore = fold.now;
  const opened = ports.clock.monotonicMs();
  const uptime = (): number => Math.round(ranBefore + (ports.clock.monotonicMs() - opened) * 1000);
  return {
    fold,
    rows,
    batches,
    uptime,
    checkpoint: async () => {
      // rows and state as they are now: the feed goes on while they are written
      const { segments, durable } = rows.sync();
      durable.catch(() => {}); // awaited below
      const content = encodePlain({ identity: identityMark(origin), segments, uptime: uptime(), state: plainState(fold, true) });
      await durable;
      await writeCheckpoint(places.checkpoints, { sequence: next++, content });
      rows.clean();
    },
    discard,
    close: () => rows.close(),
  };
}

type Checkpointed = {
  readonly identity: string;
  readonly segments: readonly SegmentState[];
  readonly uptime: number;
  readonly state: unknown;
};
type Opened = { readonly fold: FeedFold; readonly rows: RowFile; readonly sequence: number };

/** What must be equal for a checkpoint to be this feed's. */
function identityMark({ feed, project, offset, resolved }: FeedOrigin): string {
  return JSON.stringify([project, feed, offset, resolved.specHash]);
}

async function restore(origin: FeedOrigin, places: { checkpoints: string; rows: string }): Promise<Opened | null> {
  const found = await readCheckpoint(places.checkpoints);
  if (found === null) return null;
  const { identity, segments, uptime, state } = decodePlain(found.content) as Checkpointed;
  if (identity !== identityMark(origin)) return null;
  try {
    const rows = await openRowFile({ directory: places.rows, segments });
    const { decisions, facts, nextDecision } = stateFromPlain(state, () => admissionOf(origin.resolved, origin.project));
    const fold = foldOver(decisions, facts, nextDecision, rows, []);
    fold.now = uptime;
    return { fold, rows, sequence: found.sequence };
  } catch (error) {
    if (error instanceof TapedeckError && error.code === 'cache_corrupt') return null;
    throw error;
  }
}

async function begin(origin: FeedOrigin, ports: Ports, directory: string, above: number | null, signal: AbortSignal): Promise<Opened> {
  const floors = await floorsIn(origin, ports.feeds, signal);
  const end = (await ports.feeds.positions(signal))[origin.partition]?.end ?? 0;
  if (above !== null) floors.push({ before: end, above });
  const rows = await openRowFile({ directory, segments: null });
  const { resolved, feed, project, created, start } = origin;
  const identity: FeedIdentity = {
    feed,
    project,
    spec: resolved.spec,
    specHash: resolved.specHash,
    created,
    start,
    maxTimesTrained: resolved.spec.maxTimesTrained,
    keepBatches: resolved.spec.keepBatches,
    cutAhead: resolved.spec.cutAhead,
  };
  return { fold: newFold(identity, admissionOf(resolved, project), origin.offset + 1, rows, floors), rows, sequence: 0 };
}

const SCAN_BYTES = 4 * 1024 * 1024;
const REWOUND = Buffer.from('feed.rewound');

/** The rewinds in the feed's past that gave groups back: until they are folded, nothing they want may be forgotten. */
async function floorsIn(origin: FeedOrigin, feeds: EventLog, signal: AbortSignal): Promise<Floor[]> {
  const floors: Floor[] = [];
  const key = Buffer.from(origin.feed, 'utf8');
  for (let from = origin.offset; ;) {
    const chunk = await feeds.read(origin.partition, from, { maxBytes: SCAN_BYTES, signal });
    for (const { key: of, value, offset } of chunk.records) {
      if (!key.equals(of) || !Buffer.from(value.buffer, value.byteOffset, value.byteLength).includes(REWOUND)) continue;
      const event = feedEventOf(value, origin.project);
      if (event?.type === 'feed.rewound' && event.data.mode === 'recut') floors.push({ before: offset, above: event.data.to });
    }
    if (chunk.records.length === 0 || chunk.next >= chunk.end) return floors;
    from = chunk.next;
  }
}
