/**
 * Large values leave an event and come back byte for byte. In their place stands our tag 1952542821 over a map: the blob's handle, plus
 * `head`, the CBOR bytes that stood before the content. A string of indefinite length goes out as the whole encoded item (no head, media type
 * application/cbor), since its chunks are part of its bytes.
 */
import { createHash } from 'node:crypto';
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { BlobHandle } from '../fields.ts';
import { isMap } from '../fields.ts';
import type { Dtype } from '../packed-array.ts';
import { decodeCbor } from './cbor-decode.ts';
import { encodeCbor, writeHead } from './cbor-encode.ts';
import { cborError, cursorOver, INDEFINITE, MAJOR, MAX_WALK_DEPTH, readHead, TAG, takeBreak, tooDeep, type Cursor } from './cbor-head.ts';
import { skipBody, skipItem, type Range } from './cbor-items.ts';
import { typedArrayOf } from './typed-array-tags.ts';

export type Blob = { content: Uint8Array; sha256: string; mediaType: string };

/** What stands in an event for a value in the blob store: its handle, and the bytes that go before the content when it comes back. */
type Stub = BlobHandle & { head: Uint8Array };

/** A string found by the walk: the range of the whole item (tag included), of its content, and what kind it is. */
type Found = { item: Range; content: Range; major: number; dtype: Dtype | null };

/**
 * Replaces every text, byte string and typed array whose content is longer than `limitBytes` by a tagged handle; a text that nobody reads (a data URL, base64)
 * already when it is longer than `opaqueBytes`. `blobs` are to be stored before the new slice is appended; equal contents are one blob. Null when nothing is that
 * long. Map keys stay where they are.
 */
export function externalize(slice: Uint8Array, limitBytes: number, opaqueBytes = Infinity): null | { slice: Uint8Array; blobs: Blob[] } {
  if (slice.length <= Math.min(limitBytes, opaqueBytes)) return null;
  const long: Found[] = [];
  walk(slice, (found) => {
    const length = found.content.end - found.content.start;
    if (length > limitBytes || (length > opaqueBytes && isOpaque(slice, found))) long.push(found);
  });
  if (long.length === 0) return null;
  const blobs = new Map<string, Blob>();
  const out = new ByteWriter(4096);
  let done = 0;
  for (const found of long) {
    const blob = blobOf(slice, found);
    blobs.set(blob.sha256, blob);
    out.bytes(slice.subarray(done, found.item.start));
    writeStub(slice, found, blob, out);
    done = found.item.end;
  }
  out.bytes(slice.subarray(done));
  return { slice: out.take(), blobs: [...blobs.values()] };
}

const LOOKED_AT = 512;
const DATA_URL = Buffer.from('data:');

/** A data URL, or a text whose beginning is all base64: no prose goes on that long without a space. */
function isOpaque(slice: Uint8Array, { content, major }: Found): boolean {
  if (major !== MAJOR.text) return false;
  const { start } = content;
  if (DATA_URL.every((byte, i) => slice[start + i] === byte)) return true;
  const end = Math.min(content.end, start + LOOKED_AT);
  for (let i = start; i < end; i++) if (!isBase64(slice[i] as number)) return false;
  return true;
}

function isBase64(byte: number): boolean {
  return (
    (byte >= 0x41 && byte <= 0x5a) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    (byte >= 0x2f && byte <= 0x39) ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x5f
  );
}

/** The handles of the values that are in the blob store, in the order of the event. */
export function blobHandles(slice: Uint8Array): BlobHandle[] {
  return stubs(slice).map(({ stub }) => handleOf(stub));
}

function handleOf({ sha256, bytes, mediaType, dtype }: Stub): BlobHandle {
  return dtype === undefined ? { sha256, bytes, mediaType } : { sha256, bytes, mediaType, dtype };
}

/** The event as it was before `externalize`, byte for byte. Errors: those of `get`; `blob_corrupt` when a blob has not the length of its handle. */
export async function internalize(slice: Uint8Array, get: (sha256: string) => Promise<Uint8Array>): Promise<Uint8Array> {
  const found = stubs(slice);
  if (found.length === 0) return slice;
  const hashes = [...new Set(found.map(({ stub }) => stub.sha256))];
  const contents = new Map<string, Uint8Array>();
  for (const sha256 of hashes) contents.set(sha256, await get(sha256));
  const out = new ByteWriter(slice.length);
  let done = 0;
  for (const { item, stub } of found) {
    const content = contents.get(stub.sha256) as Uint8Array;
    if (content.length !== stub.bytes) throw corrupt(stub, content.length);
    out.bytes(slice.subarray(done, item.start));
    out.bytes(stub.head);
    out.bytes(content);
    done = item.end;
  }
  out.bytes(slice.subarray(done));
  return out.take();
}

function corrupt(stub: Stub, length: number): TapedeckError {
  return new TapedeckError('blob_corrupt', `blob ${stub.sha256} has ${length} bytes, its handle says ${stub.bytes}`, {
    details: { sha256: stub.sha256 },
  });
}

function blobOf(slice: Uint8Array, found: Found): Blob {
  const whole = found.content.start === found.item.start;
  const content = slice.subarray(found.content.start, found.content.end);
  const mediaType = whole ? 'application/cbor' : found.major === MAJOR.text ? 'text/plain; charset=utf-8' : 'application/octet-stream';
  return { content, sha256: createHash('sha256').update(content).digest('hex'), mediaType };
}

function writeStub(slice: Uint8Array, found: Found, blob: Blob, out: ByteWriter): void {
  const head = slice.subarray(found.item.start, found.content.start);
  const dtype = found.dtype === null || blob.mediaType === 'application/cbor' ? {} : { dtype: found.dtype };
  writeHead(MAJOR.tag, TAG.blob, out);
  encodeCbor({ sha256: blob.sha256, bytes: blob.content.length, mediaType: blob.mediaType, ...dtype, head }, out);
}

function stubs(slice: Uint8Array): { item: Range; stub: Stub }[] {
  const found: { item: Range; stub: Stub }[] = [];
  walk(slice, null, (item, inner) => {
    const stub = decodeCbor(slice, inner.start, inner.end);
    if (!isStub(stub)) throw cborError('invalid_cbor', 'a blob tag without a handle', item.start);
    found.push({ item, stub });
  });
  return found;
}

function isStub(value: unknown): value is Stub {
  return (
    isMap(value) &&
    typeof value['sha256'] === 'string' &&
    typeof value['bytes'] === 'number' &&
    typeof value['mediaType'] === 'string' &&
    value['head'] instanceof Uint8Array
  );
}

type OnString = (found: Found) => void;
type OnBlob = (item: Range, inner: Range) => void;

/** Calls back for every string that is a value (keys are skipped) and for every blob tag, in order. */
function walk(slice: Uint8Array, onString: OnString | null, onBlob?: OnBlob): void {
  const c = cursorOver(slice, 0, slice.length);
  visit(c, 1, onString, onBlob);
  if (c.at < c.end) throw cborError('invalid_cbor', 'bytes follow the end of the event', c.at);
}

function visit(c: Cursor, depth: number, onString: OnString | null, onBlob?: OnBlob): void {
  const start = c.at;
  readHead(c);
  const { major, value } = c;
  if (major === MAJOR.text || major === MAJOR.bytes) return visitString(c, start, null, onString);
  if (major === MAJOR.tag) return visitTagged(c, start, depth, onString, onBlob);
  if (major !== MAJOR.array && major !== MAJOR.map) return skipBody(c, depth);
  if (depth > MAX_WALK_DEPTH) throw tooDeep(c, MAX_WALK_DEPTH);
  for (let left = value; value === INDEFINITE ? !takeBreak(c) : left > 0; left--) {
    if (major === MAJOR.map) skipItem(c, depth);
    visit(c, depth + 1, onString, onBlob);
  }
}

function visitTagged(c: Cursor, start: number, depth: number, onString: OnString | null, onBlob?: OnBlob): void {
  const tag = c.value;
  const at = c.at;
  const type = typedArrayOf(tag);
  if (type === null) {
    skipItem(c, depth);
    if (tag === TAG.blob) onBlob?.({ start, end: c.at }, { start: at, end: c.at });
    return;
  }
  readHead(c);
  if (c.major !== MAJOR.bytes) throw cborError('invalid_cbor', 'this tag must enclose a byte string', at);
  visitString(c, start, type.bigEndian ? null : type.dtype, onString);
}

/** The string whose head was just read; `start` is where its item begins. */
function visitString(c: Cursor, start: number, dtype: Dtype | null, onString: OnString | null): void {
  const { major, value, at } = c;
  skipBody(c, 1);
  const end = c.at;
  onString?.({ item: { start, end }, content: { start: value === INDEFINITE ? start : at, end }, major, dtype });
}
