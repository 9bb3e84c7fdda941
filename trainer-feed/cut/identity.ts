/**
 * The identity of a batch: one documented byte encoding, hashed. Integers are 8 bytes little-endian, text is its UTF-8 length and bytes, a hash is 32 bytes; null is one byte 0,
 * a value that may be null is one byte 1 and the value. World, rank, packing, padding and file bytes are not in it.
 */
import { hash } from 'node:crypto';
import { ByteWriter } from '../../base/byte-writer.ts';
import type { Exclusion } from './exclusion.ts';

/** What a batch's id is made of. */
export type BatchContent = {
  /** Id of the batch before it in the feed's timeline; null for the first. */
  readonly previousId: string | null;
  readonly feed: string;
  readonly n: number;
  /** sha256, hexadecimal. */
  readonly specHash: string;
  readonly rows: readonly { readonly rowId: string; readonly contentHash: string; readonly signalHash: string }[];
  readonly denominators: { readonly rl: number; readonly ce: number; readonly refKl: number };
  /** Ids of the groups with rows, in order. */
  readonly groups: readonly string[];
  readonly excludedDigest: string;
  /** Log positions the decision read up to: next offset by partition, ascending. */
  readonly sourcePositions: readonly (readonly [partition: number, offset: number])[];
  readonly policyVersion: number | null;
};

export function batchIdOf(content: BatchContent): string {
  const out = new ByteWriter(1 << 16);
  text(out, 'tapedeck batch 1');
  optional(out, content.previousId, digest);
  text(out, content.feed);
  integer(out, content.n);
  digest(out, content.specHash);
  integer(out, content.rows.length);
  for (const row of content.rows) {
    text(out, row.rowId);
    digest(out, row.contentHash);
    digest(out, row.signalHash);
  }
  for (const count of [content.denominators.rl, content.denominators.ce, content.denominators.refKl]) integer(out, count);
  integer(out, content.groups.length);
  for (const group of content.groups) text(out, group);
  digest(out, content.excludedDigest);
  integer(out, content.sourcePositions.length);
  for (const [partition, offset] of content.sourcePositions) {
    integer(out, partition);
    integer(out, offset);
  }
  optional(out, content.policyVersion, integer);
  return hash('sha256', out.view(), 'hex');
}

/** The digest of everything a batch left out, in order. Messages are for people and not in it. */
export function excludedDigestOf(excluded: readonly Exclusion[]): string {
  const out = new ByteWriter(1 << 16);
  text(out, 'tapedeck excluded 1');
  integer(out, excluded.length);
  for (const one of excluded) {
    optional(out, one.run, text);
    text(out, one.group);
    optional(out, one.rollout, text);
    optional(out, one.trace, text);
    optional(out, one.leaf, integer);
    text(out, one.reason);
    optional(out, one.staleness, integer);
    optional(out, one.length, integer);
  }
  return hash('sha256', out.view(), 'hex');
}

function optional<T>(out: ByteWriter, value: T | null, write: (out: ByteWriter, value: T) => void): void {
  out.byte(value === null ? 0 : 1);
  if (value !== null) write(out, value);
}

function integer(out: ByteWriter, value: number): void {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no integer that can be hashed`);
  out.reserve(8).writeBigInt64LE(BigInt(value), out.length);
  out.length += 8;
}

function text(out: ByteWriter, value: string): void {
  integer(out, Buffer.byteLength(value));
  out.utf8(value);
}

function digest(out: ByteWriter, value: string): void {
  if (!/^[0-9a-f]{64}$/.test(value)) throw new RangeError(`${value} is no sha256 in lower-case hexadecimal`);
  out.bytes(Buffer.from(value, 'hex'));
}
