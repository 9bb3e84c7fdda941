/** The books: what became of every record of the log. */
import type { ErrorCode } from '../../../base/errors.ts';
import type { Topic } from '../../../events/registry.ts';
import type { Block } from './block.ts';
import { keysOf, positionOf, type StoredEvent } from './stored-event.ts';

export type LedgerStatus = 'stored' | 'duplicate' | 'conflict' | 'dead' | 'deleted';

/** Why a record has its status. `code` names the problem; `firstOffset` is where the event or entity came first, in the same partition. */
export type LedgerReason = { readonly code: ErrorCode | null; readonly message: string; readonly firstOffset: number | null };

export const NO_REASON: LedgerReason = { code: null, message: '', firstOffset: null };

/**
 * Writes the `log_index` row of an event; for a stored one also its `event_ids` row, for a conflict or a dead one also its dead letter with
 * the bytes of the record.
 */
export function ledger(stored: StoredEvent, status: LedgerStatus, reason: LedgerReason, out: Block): void {
  const { event, slice } = stored;
  const { _partition, _offset } = positionOf(stored);
  const { project, run, rollout, trace } = keysOf(event);
  const { id, type, time, producer } = event;
  const first_offset = reason.firstOffset;
  const first_partition = first_offset === null ? null : _partition;
  const bytes = slice.length;
  out.logIndex.add({
    status, reason: reason.code, type, id, project, run, rollout, trace, time, bytes,
    producer: producer?.id, producer_epoch: producer?.epoch, producer_seq: producer?.seq, first_partition, first_offset, _partition, _offset,
  }); // prettier-ignore
  if (status === 'stored') out.eventIds.add({ id, hash: stored.hash.event, _partition, _offset, project });
  else if (status === 'conflict' || status === 'dead') {
    out.deadLetters.add({
      project, run, rollout, trace, _partition, _offset, first_partition, first_offset, id, type, bytes,
      reason: reason.code ?? status, message: reason.message, raw: slice,
    }); // prettier-ignore
  }
}

/** A record that could not be read as an event: only its place, its bytes and the problem are known. */
export type UnreadRecord = { readonly topic: Topic; readonly partition: number; readonly offset: number; readonly bytes: Uint8Array };

/** Writes the `log_index` row and the dead letter of a record that is no readable event. */
export function deadLetter(record: UnreadRecord, code: ErrorCode, message: string, out: Block): void {
  const known = { ...positionOf(record), project: '', run: '', rollout: '', trace: '', type: '', bytes: record.bytes.length };
  out.logIndex.add({ ...known, status: 'dead', reason: code });
  out.deadLetters.add({ ...known, reason: code, message, raw: record.bytes });
}
