/** Limits on what one request may hold. Each is named in the answer that it causes. */
export type AcceptLimits = {
  /** Events in one request (`too_many_items`). */
  readonly items: number;
  /** Bytes of one log record after large values left it (`event_too_large`). */
  readonly eventBytes: number;
  /** Values longer than this leave the event for the blob store. */
  readonly valueBytes: number;
  /** Data URLs and base64 longer than this leave the event, too. Missing: only by `valueBytes`. */
  readonly opaqueBytes?: number;
  /** How long the blob store and the log may take before the answer is 503, milliseconds. */
  readonly storeMs: number;
};

export const ACCEPT_LIMITS: AcceptLimits = { items: 50_000, eventBytes: 1_000_000, valueBytes: 256 * 1024, storeMs: 30_000 };
