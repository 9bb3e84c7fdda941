/** Server-sent events as values. Types only. */
import type { Problem } from '../../../base/result.ts';

/**
 * One block of a stream up to its blank line. `raw` is every byte of it, so that the `raw` of all blocks joined is the stream, byte for byte.
 * - `event`: has at least one `data` field. `data` is its lines joined with LF.
 * - `comment`: has none (keep-alives, blank lines, a lone `event:`): to be passed on, not to be read.
 * - `broken`: what was left when the stream ended inside a block, or a block beyond the limit, or one that is not UTF-8; `problem` says which
 *   (`sse_truncated`, `sse_event_too_large`, `invalid_utf8`). After `sse_event_too_large` the decoder gives nothing more.
 */
export type SseEvent = {
  readonly kind: 'event' | 'comment' | 'broken';
  /** The `event:` field; null when there is none (the browser's "message"). */
  readonly name: string | null;
  readonly data: string;
  /** The `id:` field of this block; null when there is none. */
  readonly id: string | null;
  /** The `retry:` field in milliseconds; null when there is none. */
  readonly retry: number | null;
  readonly raw: Uint8Array;
  readonly problem: Problem | null;
};

/** What the encoder takes. `data` may hold line ends: it becomes several data lines. */
export type SseFrame = { readonly name: string | null; readonly data: string };

/** Bytes in, blocks out, whatever the chunking. */
export type SseDecoder = {
  /** The blocks that `chunk` completes. Their bytes are copies: the chunk may be re-used. */
  push(chunk: Uint8Array): readonly SseEvent[];
  /** The stream is over: what was left unterminated as `broken`, or null. */
  end(): SseEvent | null;
  /** Bytes held for the block that is not complete yet. */
  readonly heldBytes: number;
};
