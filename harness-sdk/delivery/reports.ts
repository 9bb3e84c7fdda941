/** What a recorder tells about its events, and what it may use: the types of the public face that belong to the queue. */
import type { ErrorCode } from '../../base/errors.ts';

/** What is in the way of delivery. */
export type Problem = { readonly code: ErrorCode; readonly message: string };

/** What became of the events of one recorder. At any time `produced = acked + rejected + spooled + queued`: each event is in exactly one of the four. */
export type Counters = {
  /** Events that were recorded, that is numbered and taken. */
  readonly produced: number;
  /** Durable in the server's log. */
  readonly acked: number;
  /** Refused by the server for good, or lost with a damaged spool; each was handed to `onRejected`. */
  readonly rejected: number;
  /** On disk, not yet settled. */
  readonly spooled: number;
  /** Only in memory, not yet settled. */
  readonly queued: number;
  /** Calls that got the error `overloaded`, because the queue or the spool was full. They were not produced. */
  readonly refused: number;
  /** Of `acked`: those that the server had already, from an attempt whose answer was lost. */
  readonly duplicates: number;
  readonly queuedBytes: number;
  readonly spooledBytes: number;
};

/** An event that will not be in the log. `event` is null when it was lost with a damaged spool. */
export type Rejected = {
  readonly seq: number;
  readonly code: string;
  readonly message: string;
  readonly field?: string;
  readonly event: Uint8Array | null;
};

/** What became of one session. `lost`: records that could not be read, they count as rejected too; `damagedBytes`: stretches without a readable record, a torn end included. */
export type Drained = {
  readonly session: string;
  readonly acked: number;
  readonly duplicates: number;
  readonly rejected: number;
  readonly lost: number;
  readonly damagedBytes: number;
};

/** Where events wait on disk. Sizes are bytes, times milliseconds. */
export type SpoolOptions = {
  /** Folder on a local disk; several processes may share it. It is made when missing. */
  readonly folder: string;
  /** What one recorder may have on disk. Default 1 GiB. */
  readonly maxBytes?: number | undefined;
  /** An event is on disk, or acknowledged, after this long. Default 50. */
  readonly delayMs?: number | undefined;
  /** Every event is on disk before the call that recorded it returns. Default false. */
  readonly sync?: boolean | undefined;
  /** Wait for the disk itself, so that a power loss is survived too. Default false: a kill is survived. */
  readonly fsync?: boolean | undefined;
  /** Size of one file. Default 8 MiB. */
  readonly segmentBytes?: number | undefined;
  /** Deliver what dead processes left in the folder. Default true. */
  readonly drain?: boolean | undefined;
};
