/** Rows of a batch again, from its row list and the facts of its rollouts: for a batch that somebody else cut, or whose file is gone. The decision is read, never made again. */
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { decodeRowList, type ListedRow, type RowTokens } from '../../events/row-list.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { Row } from '../cut/row.ts';
import { rolloutKey } from '../groups/keys.ts';
import type { LoadColumns } from '../groups/member-trace.ts';
import { referenceKey, type TraceFacts } from '../groups/rollout-facts.ts';
import { rowOf } from './batch-rows.ts';
import type { BatchRecord } from './decision-state.ts';
import type { FeedFold } from './fold.ts';
import type { FeedFiles } from './open-feed.ts';

/** The rows, kept in the feed's files; null when they cannot be made from what is at hand: the feed is then folded anew. */
export async function regather(
  record: BatchRecord,
  files: FeedFiles,
  blobs: BlobStore,
  signal?: AbortSignal,
): Promise<readonly Row[] | null> {
  if (record.rows === null) return null;
  const { rows: listed } = await decodeRowList(await blobs.get(record.rows.sha256, signal));
  try {
    const rows = listed.map((row) => regatherRow(row, files.fold, files.rows));
    await files.batches.put(record, rows);
    return rows;
  } catch (error) {
    if (!isTapedeckError(error, 'cache_corrupt')) throw error;
    return null;
  }
}

/** Throws `cache_corrupt` when facts are not at hand or do not fit the list. */
function regatherRow(row: ListedRow, { facts }: FeedFold, load: LoadColumns): Row {
  const rollout = facts.rollouts.get(rolloutKey(row.run ?? '', row.rollout));
  const trace = rollout?.traces.get(row.trace);
  const teacher = facts.admission.teacherOf(rollout?.start?.env ?? '');
  if (trace === undefined)
    throw new TapedeckError('cache_corrupt', `the facts of row ${row.rowId} are not at hand: the feed is folded anew`);
  return rowOf(row, tokensOf(row, trace, load, teacher));
}

function tokensOf(row: ListedRow, trace: TraceFacts, load: LoadColumns, teacher: string | null): RowTokens {
  const { seqLen, lossMask, nodes, hasReference } = row;
  const tokenIds = new Int32Array(seqLen);
  const logprobs = new Float32Array(seqLen);
  const refLogprobs = hasReference ? new Float32Array(seqLen) : null;
  let at = 0;
  for (const index of nodes) {
    const tokens = trace.nodes.get(index)?.tokens;
    if (tokens === undefined || tokens === null || tokens.at === null) throw unfit(row);
    const columns = load.tokens(tokens.at, tokens.length, tokens.masked);
    const late = teacher === null ? undefined : trace.references.get(referenceKey(index, teacher));
    const reference = late === undefined ? columns.referenceLogprobs : load.scores(late.at);
    const take = Math.min(tokens.length, seqLen - at);
    for (let i = 0, sampled = 0; i < take; i++) {
      tokenIds[at + i] = columns.ids[i] as number;
      if (columns.mask[i] !== 1) continue;
      if (lossMask[at + i] === 1) {
        logprobs[at + i] = columns.logprobs?.[sampled] ?? 0;
        if (refLogprobs !== null) refLogprobs[at + i] = reference?.[sampled] ?? 0;
      }
      sampled++;
    }
    at += take;
  }
  if (at !== seqLen) throw unfit(row);
  return { tokenIds, logprobs, refLogprobs };
}

function unfit(row: ListedRow): TapedeckError {
  return new TapedeckError('cache_corrupt', `the facts at hand do not make up row ${row.rowId}: the feed is folded anew`);
}
