/** From a request body to the CBOR bytes of each event: CBOR is only cut, JSON is transcoded once. Pure; nothing is decoded here. */
import type { ByteWriter } from '../base/byte-writer.ts';
import { isTapedeckError } from '../base/errors.ts';
import { fail, ok, type Problem, type Result } from '../base/result.ts';
import { splitCborItems } from '../events/codec/cbor-items.ts';
import { splitJsonItems, splitNdjson } from '../events/codec/json-items.ts';
import { jsonToCbor } from '../events/codec/json-to-cbor.ts';
import type { Media } from './accept-media.ts';

export type Range = { readonly start: number; readonly end: number };

/** `ranges[i]` is where item i lies in `bytes`, or what is wrong with it. */
export type SplitBody = { readonly bytes: Uint8Array; readonly ranges: readonly (Range | Problem)[] };

export function isProblem(range: Range | Problem): range is Problem {
  return 'code' in range;
}

/** Bytes worked on between two steps: the longest that one body may keep the event loop busy is what this many bytes cost (15 ms as JSON, 2 ms as CBOR). */
export const STEP_BYTES = 1024 * 1024;

/**
 * Finds the items of `body`, in steps: every `yield` is a place to let others run. An error means that the body as a whole cannot be read (broken frame, too many items). JSON is written to `writer` as CBOR and
 * the ranges point there: they stay valid until the writer is written to again.
 */
export function* splitBody(body: Uint8Array, media: Media, maxItems: number, writer: ByteWriter): Generator<void, Result<SplitBody>> {
  if (body.length === 0) return fail('bad_request', 'the body is empty; send an array of events, or one event');
  const split = rangesOf(body, media, maxItems);
  if (!split.ok) return split;
  if (split.value.length > maxItems) {
    return fail('too_many_items', `more than ${maxItems} events in one request; send smaller batches`);
  }
  return ok(media === 'cbor' ? { bytes: body, ranges: split.value } : yield* transcode(body, split.value, writer));
}

function rangesOf(body: Uint8Array, media: Media, maxItems: number): Result<readonly Range[]> {
  switch (media) {
    case 'cbor':
      return splitCborItems(body, maxItems + 1);
    case 'json':
      return splitJsonItems(body, maxItems + 1);
    case 'ndjson':
      return ok(splitNdjson(body, maxItems + 1));
  }
}

function* transcode(body: Uint8Array, items: readonly Range[], writer: ByteWriter): Generator<void, SplitBody> {
  let stepAt = STEP_BYTES;
  const ranges: (Range | Problem)[] = [];
  for (const { start, end } of items) {
    if (start > stepAt) {
      stepAt = start + STEP_BYTES;
      yield;
    }
    const at = writer.length;
    try {
      jsonToCbor(body, start, end, writer);
      ranges.push({ start: at, end: writer.length });
    } catch (error) {
      if (!isTapedeckError(error)) throw error;
      writer.length = at;
      ranges.push({ code: error.code, message: error.message });
    }
  }
  return { bytes: writer.view(), ranges };
}
