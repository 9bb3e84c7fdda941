/** The batches of another feed, for a feed that is to hold the same groups (`membership: as:<feed>`). Read from the log, so that batches of long ago are there too. */
import { TapedeckError } from '../../base/errors.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { EventOf } from '../../events/registry.ts';
import type { ChainLink } from './decision-state.ts';
import { feedEventOf } from './read-topics.ts';
import { resolveLists } from './resolve-lists.ts';
import type { FeedOrigin } from './open-feed.ts';

/** A group of the other feed's batch, as its ready decision fixed it. */
export type GivenGroup = {
  readonly run: string;
  readonly group: string;
  readonly solo: boolean;
  readonly members: readonly { readonly rollout: string; readonly trace: string }[];
  /** How much of each partition counted for its rewards. */
  readonly limits: readonly number[];
};

type From = { readonly feeds: EventLog; readonly blobs: BlobStore; readonly signal: AbortSignal };

/** The groups that batch `link` of the other feed holds, in order. Errors: `log_corrupt`, those of the log and the blob store. */
export async function groupsOfBatch(origin: FeedOrigin, link: ChainLink, from: From): Promise<GivenGroup[]> {
  const cut = await decisionAt(origin, link.offset, from);
  if (cut.type !== 'batch.cut') throw misplaced(origin, link.offset);
  const groups: GivenGroup[] = [];
  for (const offset of (cut.data.groups ?? []) as readonly number[]) {
    const ready = await decisionAt(origin, offset, from);
    if (ready.type !== 'group.ready') throw misplaced(origin, offset);
    groups.push(givenGroup(ready));
  }
  return groups;
}

function givenGroup({ run, data }: EventOf<'group.ready'>): GivenGroup {
  const members = data.members as readonly { readonly rollout: string; readonly trace: string }[];
  return { run: run ?? '', group: data.group, solo: data.solo ?? false, members, limits: data.rewardPositions ?? [] };
}

async function decisionAt(
  origin: FeedOrigin,
  offset: number,
  { feeds, blobs, signal }: From,
): Promise<Awaited<ReturnType<typeof resolveLists>>> {
  const { records } = await feeds.read(origin.partition, offset, { maxBytes: 1, signal });
  const [record] = records;
  const event = record === undefined || record.offset !== offset ? null : feedEventOf(record.value, origin.project);
  if (event === null) throw misplaced(origin, offset);
  return resolveLists(event, blobs, signal);
}

function misplaced({ feed }: FeedOrigin, offset: number): TapedeckError {
  return new TapedeckError('log_corrupt', `the log of feed ${feed} has no such decision at ${offset}, where its state says there is one`);
}
