/** Carries a cut out: rows from the chosen groups, their lists into the blob store, and the decision to append. Nothing counts before the decision was read back. */
import { setImmediate } from 'node:timers/promises';
import { TapedeckError } from '../../base/errors.ts';
import { encodeExcludedList, encodeRowList, EXCLUDED_LIST_TYPE, ROW_LIST_TYPE, type ListedRow } from '../../events/row-list.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { cutPrepared, type Cut } from '../cut/cut.ts';
import type { PreparedGroup } from '../cut/prepare-group.ts';
import type { Row } from '../cut/row.ts';
import { lengthClass } from './apply-decision.ts';
import { linkOf, type BatchCounts, type ChainLink, type GroupRecord } from './decision-state.ts';
import type { Draft } from './draft.ts';
import type { FeedFold } from './fold.ts';
import { prepared, type CutterContext } from './next-cut.ts';
import { policyVersionOf } from './policy-version.ts';
import { feedEventOf } from './read-topics.ts';

/** A batch as cut; `draft` is null when nothing of it can be trained: then the groups are to be given up. */
export type CutBatch = { readonly rows: readonly Row[]; readonly draft: Draft | null; readonly batchId: string };

const GROUPS_AT_A_TIME = 8;

export async function cutBatch(
  context: CutterContext,
  n: number,
  groups: readonly GroupRecord[],
  blobs: BlobStore,
  signal: AbortSignal,
): Promise<CutBatch> {
  const { fold, resolved } = context;
  const { decisions } = fold;
  const ready: PreparedGroup[] = [];
  for (const [i, group] of groups.entries()) {
    if (i % GROUPS_AT_A_TIME === 0) await setImmediate();
    ready.push(prepared(context, group));
  }
  const previousId = linkOf(decisions, n - 1)?.batchId ?? null;
  const positions = [...fold.facts.positions];
  const policyVersion = policyVersionOf(fold);
  const cut = cutPrepared(resolved.cut, ready, {
    feed: decisions.feed,
    n,
    previousId,
    specHash: resolved.specHash,
    policyVersion,
    sourcePositions: positions.map((offset, partition) => [partition, offset] as const),
    raeState: new Map(),
  });
  if (cut.rows.length === 0) return { rows: [], draft: null, batchId: cut.batchId };
  const [rows, excluded] = await Promise.all([
    encodeRowList(cut.rows.map(listedRow), null).then((bytes) => blobs.put(bytes, ROW_LIST_TYPE, signal)),
    encodeExcludedList(cut.excluded).then((bytes) => blobs.put(bytes, EXCLUDED_LIST_TYPE, signal)),
  ]);
  const run = resolved.spec.runs?.length === 1 ? resolved.spec.runs[0] : undefined;
  const draft: Draft = {
    type: 'batch.cut',
    run,
    key: [n, cut.batchId],
    data: {
      feed: decisions.feed,
      timeline: decisions.timeline,
      n,
      batchId: cut.batchId,
      algorithm: algorithmsOf(ready),
      policyVersion,
      previous: previousId,
      groups: groups.map((group) => group.ready?.offset ?? 0),
      positions,
      rows,
      excluded,
      counts: countsOf(cut, groups.length),
      statistics: { ...cut.statistics, groups: cut.groups.length },
    },
  };
  return { rows: cut.rows, draft, batchId: cut.batchId };
}

/** The same batch once more, on the timeline that replays it; its rows are at hand already. Throws `log_corrupt` when the log has no such batch. */
export async function cutAgain(
  { n, offset }: ChainLink,
  { fold, feeds, partition }: { readonly fold: FeedFold; readonly feeds: EventLog; readonly partition: number },
  signal: AbortSignal,
): Promise<CutBatch & { readonly draft: Draft }> {
  const { feed, project, timeline } = fold.decisions;
  const [record] = (await feeds.read(partition, offset, { maxBytes: 1, signal })).records;
  const event = record === undefined || record.offset !== offset ? null : feedEventOf(record.value, project);
  if (event?.type !== 'batch.cut')
    throw new TapedeckError('log_corrupt', `the log of feed ${feed} has no batch ${n} at ${offset}, where its state says there is one`);
  const { batchId } = event.data;
  const data = { ...event.data, timeline };
  return { rows: [], batchId, draft: { type: 'batch.cut', run: event.run, key: [event.data.n, batchId], data } };
}

/** The row as it is listed: without token ids and log-probabilities, which are in the log. */
export function listedRow(row: Row): ListedRow {
  return { ...row, hasReference: row.refLogprobs !== null };
}

function algorithmsOf(groups: readonly PreparedGroup[]): string {
  return [...new Set(groups.flatMap(({ resolved }) => resolved?.algorithm.name ?? []))].toSorted().join('+');
}

function countsOf({ rows, counts, excluded }: Cut, groups: number): BatchCounts {
  const left: Record<string, { rows: number; tokens: number }> = {};
  const leftByLength: number[] = [];
  for (const { reason, length } of excluded) {
    const entry = (left[reason] ??= { rows: 0, tokens: 0 });
    entry.rows++;
    entry.tokens += length ?? 0;
    const at = lengthClass(length ?? 0);
    while (leftByLength.length <= at) leftByLength.push(0);
    leftByLength[at] = (leftByLength[at] as number) + 1;
  }
  const { rollouts, tokens, nRl, nCe, nRefKl } = counts;
  const longestRow = rows.reduce((most, { seqLen }) => Math.max(most, seqLen), 0);
  return { rows: rows.length, rollouts, groups, tokens, longestRow, N_rl: nRl, N_ce: nCe, N_ref_kl: nRefKl, left, leftByLength };
}
