/**
 * Folds a stretch of a log partition into rollout states. What the gateway does not need of an event is not decoded, and large values are fetched only where the
 * graph needs them.
 */
import { TapedeckError } from '../../../base/errors.ts';
import { internalize } from '../../../events/codec/blob-tags.ts';
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { cursorOver, INDEFINITE, readHead, takeBreak } from '../../../events/codec/cbor-head.ts';
import { skipItem } from '../../../events/codec/cbor-items.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { readEvent } from '../../../events/read-event.ts';
import type { EventOf, TapedeckEvent } from '../../../events/registry.ts';
import type { EventLog } from '../../../store/log/event-log.ts';
import { foldEvent, isOurs, newRollout, type RolloutState } from './state.ts';

export type FoldPorts = { readonly log: EventLog; readonly fetchBlob: (sha256: string, signal: AbortSignal) => Promise<Uint8Array> };

/** Rollouts by `project/rollout`, in the order of their start, and the offset up to which the log was read. */
export type Folded = { readonly rollouts: Map<string, RolloutState>; readonly end: number };

const READ_BYTES = 4 * 1024 * 1024;
const TYPES = new Set([
  'rollout.started',
  'rollout.ended',
  'rollout.cancelled',
  'trace.started',
  'trace.ended',
  'node.appended',
  'call.recorded',
]);

export function rolloutKey(project: string, rollout: string): string {
  return `${project}/${rollout}`;
}

/**
 * Reads a partition from `from` to its end (as it was when the reading began) and folds the gateway's rollouts that start there. `wants` may leave out rollouts
 * that the caller has already. Errors: those of the log and of the blob store.
 */
export async function foldPartition(
  partition: number,
  from: number,
  wants: (key: string) => boolean,
  { log, fetchBlob }: FoldPorts,
  signal: AbortSignal,
): Promise<Folded> {
  const bounds = (await log.positions(signal))[partition];
  if (bounds === undefined) throw new TapedeckError('position_out_of_range', `the log has no partition ${partition}`);
  const rollouts = new Map<string, RolloutState>();
  const seen = new Set<string>();
  for (let at = Math.max(from, bounds.first); at < bounds.end;) {
    const chunk = await log.read(partition, at, { maxBytes: READ_BYTES, signal });
    for (const { value, offset } of chunk.records) {
      const head = readHeadOf(value);
      if (head === null || !TYPES.has(head.type) || head.rollout === undefined) continue;
      const key = rolloutKey(head.project, head.rollout);
      const known = rollouts.get(key);
      if (known === undefined && (head.type !== 'rollout.started' || !wants(key))) continue;
      const event = await eventOf(value, head.type, (sha256) => fetchBlob(sha256, signal));
      if (event === null) continue;
      if (known !== undefined) foldEvent(known, event, seen);
      else if (event.type === 'rollout.started' && isOurs(event.data.extra)) rollouts.set(key, started(event, partition, offset));
    }
    at = chunk.next;
  }
  return { rollouts, end: bounds.end };
}

function started(event: EventOf<'rollout.started'>, partition: number, offset: number): RolloutState {
  const project = event.project ?? DEFAULT_PROJECT;
  const rollout = event.rollout as string;
  const scope = { project, run: event.run as string, group: event.group, rollout };
  return newRollout({ project, rollout, partition, offset }, scope, event.data.started ?? event.time);
}

type Head = { readonly type: string; readonly project: string; readonly rollout: string | undefined };

/** Type and ids of a record, without the rest of the event. Null when they cannot be read: the projector dead-letters such a record. */
export function readHeadOf(record: Uint8Array): Head | null {
  const found: Record<string, unknown> = {};
  try {
    const c = cursorOver(record, 0, record.length);
    readHead(c);
    for (let left = c.value; left === INDEFINITE ? !takeBreak(c) : left > 0; left -= left === INDEFINITE ? 0 : 1) {
      const keyAt = c.at;
      skipItem(c, 1);
      const valueAt = c.at;
      const key = decodeCbor(record, keyAt, valueAt) as string;
      skipItem(c, 1);
      if (key === 'type' || key === 'project' || key === 'rollout') found[key] = decodeCbor(record, valueAt, c.at);
    }
  } catch (error) {
    if (error instanceof TapedeckError) return null;
    throw error;
  }
  const { type, project, rollout } = found;
  if (typeof type !== 'string') return null;
  return {
    type,
    project: typeof project === 'string' ? project : DEFAULT_PROJECT,
    rollout: typeof rollout === 'string' ? rollout : undefined,
  };
}

/** Large values of a node are its message or its tokens and are fetched; those of other events are of no interest here and become null. */
export async function eventOf(
  record: Uint8Array,
  type: string,
  fetchBlob: (sha256: string) => Promise<Uint8Array>,
): Promise<TapedeckEvent | null> {
  const light = type === 'node.appended' ? null : readEvent(withoutBlobs(record));
  if (light?.ok === true) return light.value;
  const read = readEvent(await internalize(record, fetchBlob));
  return read.ok ? read.value : null;
}

/** The tag of a value in the blob store; see events/codec/blob-tags.ts. */
const BLOB_HEAD = Buffer.from([0xda, 0x74, 0x61, 0x70, 0x65]);

/** The record with every handle in place of its value, as a plain map: the fields that the fold reads are never that large. */
function withoutBlobs(record: Uint8Array): Uint8Array {
  const bytes = Buffer.from(record.buffer, record.byteOffset, record.byteLength);
  let at = bytes.indexOf(BLOB_HEAD);
  if (at < 0) return record;
  const pieces: Uint8Array[] = [];
  let done = 0;
  for (; at >= 0; at = bytes.indexOf(BLOB_HEAD, done)) {
    pieces.push(bytes.subarray(done, at));
    done = at + BLOB_HEAD.length;
  }
  pieces.push(bytes.subarray(done));
  return Buffer.concat(pieces);
}
