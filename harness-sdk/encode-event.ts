/**
 * One event as CBOR, encoded once. The producer stands first and its numbers have a fixed width, so that an event can be numbered anew in place
 * (a cloned or fenced recorder), without being decoded.
 */
import { ByteWriter } from '../base/byte-writer.ts';
import { TapedeckError } from '../base/errors.ts';
import { encodeCbor, writeHead, writeText } from '../events/codec/cbor-encode.ts';
import { MAJOR } from '../events/codec/cbor-head.ts';
import type { EVENTS_VERSION } from '../events/envelope.ts';
import type { DataOf, EventType } from '../events/registry.ts';

/** Everything of an envelope that events of one run, rollout or trace share, encoded once. */
export type ScopeHead = { readonly bytes: Uint8Array; readonly fields: number };
export type ScopeIds = {
  readonly project?: string | undefined;
  readonly run?: string | undefined;
  readonly group?: string | undefined;
  readonly rollout?: string | undefined;
  readonly trace?: string | undefined;
};

/** Map head, `v`, the key `producer` and everything before the digits of `seq`; the same for all events of one producer but for the map head. */
export type ProducerHead = { readonly id: string; readonly bytes: Uint8Array };

/** The schemas' own constant cannot be imported without their library; its type keeps the two equal. */
const VERSION: typeof EVENTS_VERSION = 1;
/** v, producer, id, type, time, data. */
const OWN_FIELDS = 6;
const SEQ_BYTES = 8;
/** Longest event that a server takes as a body (docs/http.md). */
export const MAX_EVENT_BYTES = 48 * 1024 * 1024;
const KEEP_BYTES = 1024 * 1024;
let scratch = new ByteWriter(64 * 1024);

/** Epoch 0: a recorder that cannot go on with its numbers takes a new producer id, so no epoch of it ever follows another. */
export function producerHead(id: string): ProducerHead {
  const out = new ByteWriter(256);
  writeText('v', out);
  writeHead(MAJOR.uint, VERSION, out);
  writeText('producer', out);
  writeHead(MAJOR.map, 3, out);
  writeText('id', out);
  writeText(id, out);
  writeText('epoch', out);
  writeHead(MAJOR.uint, 0, out);
  writeText('seq', out);
  out.byte((MAJOR.uint << 5) | 27);
  return { id, bytes: out.take() };
}

const UUID_LENGTH = 36;

/** Producer ids end in a UUID, so that no two recorders ever share one; `name` in front of it is for people. */
export function producerId(name: string, uuid: string): string {
  return `${name}/${uuid}`;
}

/** Another id of the same length. */
export function freshProducer(id: string, uuid: string): ProducerHead {
  return producerHead(id.slice(0, -UUID_LENGTH) + uuid);
}

/** Who numbered an event of ours, read from its fixed place; null when it is none of ours. */
export function producerOf(event: Uint8Array): string | null {
  const at = producerHead('').bytes.length - '\x60\x65epoch\x00\x63seq\x1b'.length + 1;
  const head = event[at] ?? 0;
  const length = head === 0x78 ? (event[at + 1] ?? 0) : head - 0x60;
  const start = at + (head === 0x78 ? 2 : 1);
  const id = Buffer.from(event.subarray(start, start + Math.max(0, length))).toString('utf8');
  const expected = producerHead(id).bytes;
  return id.length >= UUID_LENGTH && Buffer.compare(event.subarray(1, 1 + expected.length), expected) === 0 ? id : null;
}

/** The ids of a scope as envelope fields. Throws `invalid_id` or `id_too_long` when one cannot be an id. */
export function scopeHead(ids: ScopeIds): ScopeHead {
  const out = new ByteWriter(256);
  let fields = 0;
  for (const key of ['project', 'run', 'group', 'rollout', 'trace'] as const) {
    const id = ids[key];
    if (id === undefined) continue;
    checkId(key, id);
    writeText(key, out);
    writeText(id, out);
    fields++;
  }
  return { bytes: out.take(), fields };
}

const MAX_ID_BYTES = 256;

export function checkId(name: string, id: unknown): void {
  if (typeof id !== 'string' || id.length === 0 || !id.isWellFormed())
    throw new TapedeckError('invalid_id', `${name} must be a string of well-formed Unicode that is not empty`);
  if (Buffer.byteLength(id) > MAX_ID_BYTES)
    throw new TapedeckError('id_too_long', `${name} must be at most ${MAX_ID_BYTES} bytes of UTF-8: use a shorter id`);
}

export type NewEvent<T extends EventType = EventType> = {
  readonly producer: ProducerHead;
  readonly seq: number;
  readonly id: string;
  readonly type: T;
  readonly time: number;
  readonly scope: ScopeHead;
  readonly data: DataOf<T>;
};

/**
 * The bytes of one event. Throws what `encodeCbor` throws for a value without a CBOR form (`wrong_type`, `too_deep`, `number_out_of_range`), and
 * `event_too_large`.
 */
export function encodeNumbered<T extends EventType>({ producer, seq, id, type, time, scope, data }: NewEvent<T>): Uint8Array {
  const out = scratch;
  out.clear();
  writeHead(MAJOR.map, OWN_FIELDS + scope.fields, out);
  out.bytes(producer.bytes);
  putSeq(out.reserve(SEQ_BYTES), out.length, seq);
  out.length += SEQ_BYTES;
  writeText('id', out);
  writeText(id, out);
  writeText('type', out);
  writeText(type, out);
  writeText('time', out);
  encodeCbor(time, out);
  out.bytes(scope.bytes);
  writeText('data', out);
  encodeCbor(data, out);
  const length = out.length;
  const event = length > MAX_EVENT_BYTES ? null : kept(out.view());
  if (length > KEEP_BYTES) scratch = new ByteWriter(64 * 1024);
  if (event === null)
    throw new TapedeckError(
      'event_too_large',
      `the event has ${length} bytes, the limit is ${MAX_EVENT_BYTES}: split it into several events`,
    );
  return event;
}

/** Events lie side by side in blocks: a buffer of its own for each would keep the garbage collector busy. A block is let go with the last of its events. */
const BLOCK_BYTES = 512 * 1024;
let block = Buffer.alloc(0);
let used = 0;

function kept(event: Buffer): Uint8Array {
  if (event.length > BLOCK_BYTES / 8) return Buffer.from(event);
  if (used + event.length > block.length) {
    block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    used = 0;
  }
  event.copy(block, used);
  used += event.length;
  return block.subarray(used - event.length, used);
}

/** Puts other numbers into the copy of an event that begins at `at`. `head` has as many bytes as the one the event was encoded with. */
export function renumber(copy: Buffer, at: number, head: ProducerHead, seq: number): void {
  copy.set(head.bytes, at + 1);
  putSeq(copy, at + 1 + head.bytes.length, seq);
}

function putSeq(buffer: Buffer, at: number, seq: number): void {
  buffer.writeUInt32BE(Math.floor(seq / 0x1_0000_0000), at);
  buffer.writeUInt32BE(seq % 0x1_0000_0000, at + 4);
}

/**
 * An item that the server refuses for good, since it has neither time nor data, and that thereby uses up one number: how numbers that will never come (refused
 * before, or lost with a damaged spool) are stepped over, so that the gap stays visible in the log.
 */
export function encodeVoid(producer: ProducerHead, seq: number, id: string): Uint8Array {
  const out = new ByteWriter(256);
  writeHead(MAJOR.map, 4, out);
  out.bytes(producer.bytes);
  putSeq(out.reserve(SEQ_BYTES), out.length, seq);
  out.length += SEQ_BYTES;
  writeText('id', out);
  writeText(id, out);
  writeText('type', out);
  writeText('note.added', out);
  return out.take();
}
