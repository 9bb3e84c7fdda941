/**
 * What became of the events of one recorder. At any time `produced = acked + rejected + spooled + queued`: each event is in exactly one of the four.
 */
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
