/** Items of a CBOR sequence that comes in pieces, and what must stay behind when an event moves to another server. */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { writeHead } from '../../../events/codec/cbor-encode.ts';
import { cursorOver, INDEFINITE, MAJOR, readHead, takeBreak } from '../../../events/codec/cbor-head.ts';
import { skipItem } from '../../../events/codec/cbor-items.ts';

/** Whole items as they become complete. Throws `truncated_body` when the sequence ends inside one. */
export async function* itemsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    rest = rest.length === 0 ? Buffer.from(piece) : Buffer.concat([rest, piece]);
    let at = 0;
    for (let end = endOfItem(rest, at); end !== null; end = endOfItem(rest, at)) {
      yield rest.subarray(at, end);
      at = end;
    }
    rest = rest.subarray(at);
  }
  if (rest.length > 0) throw new TapedeckError('truncated_body', 'the events broke off in the middle of one: the server went away');
}

/** Null when it is not complete yet. */
function endOfItem(bytes: Buffer, start: number): number | null {
  if (start === bytes.length) return null;
  const c = cursorOver(bytes, start, bytes.length);
  try {
    skipItem(c, 1);
  } catch (error) {
    if (isTapedeckError(error, 'invalid_cbor')) return null;
    throw error;
  }
  return c.at <= bytes.length ? c.at : null;
}

/**
 * The event without its producer's number: numbers count what one writer sends to one server, and a part of them, sent by somebody else to another, would be a gap.
 * All other bytes stay.
 */
export function withoutProducer(slice: Uint8Array): Uint8Array {
  const c = cursorOver(slice, 0, slice.length);
  readHead(c);
  if (c.major !== MAJOR.map) return slice;
  const count = c.value;
  const bodyAt = c.at;
  for (let left = count; count === INDEFINITE ? !takeBreak(c) : left > 0; left--) {
    const keyAt = c.at;
    skipItem(c, 1);
    const isProducer = decodeCbor(slice, keyAt, c.at) === 'producer';
    skipItem(c, 1);
    if (!isProducer) continue;
    const out = new ByteWriter(slice.length);
    if (count === INDEFINITE) out.bytes(slice.subarray(0, bodyAt));
    else writeHead(MAJOR.map, count - 1, out);
    out.bytes(slice.subarray(bodyAt, keyAt));
    out.bytes(slice.subarray(c.at));
    return out.take();
  }
  return slice;
}
