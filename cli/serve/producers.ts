/** The state of every producer as of the end of the log: what log_index knows, plus the tail of the log that is not projected yet. */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { storedPositions } from '../../store/columns/stored-positions.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { producerKey, producerOfRecord, type ProducerState } from '../../ingest/accept-sequence.ts';

const TAIL_READ_BYTES = 8 * 1024 * 1024;

export async function loadProducers(
  store: ColumnStore,
  log: EventLog,
  signal = new AbortController().signal,
): Promise<ReadonlyMap<string, ProducerState>> {
  const states = new Map<string, ProducerState>();
  const positions = await storedPositions(store, { signal });
  for (const row of await store.rows<{ project: string; id: string; epoch: string; next: string }>(NEWEST_SQL, { signal })) {
    merge(states, producerKey(row), Number(row.epoch), Number(row.next));
  }
  const bounds = await log.positions(signal);
  for (const [partition, { first, end }] of bounds.entries()) {
    let from = Math.max(first, positions.get(partition) ?? 0);
    while (from < end) {
      const chunk = await log.read(partition, from, { maxBytes: TAIL_READ_BYTES, signal });
      for (const { value } of chunk.records) {
        const producer = producerOfRecord(value);
        if (producer !== null) merge(states, producerKey(producer), producer.epoch, producer.seq + 1);
      }
      from = chunk.next;
    }
  }
  return states;
}

/**
 * Numbers refused for good left no record, and requests of several partitions may have been cut short: below the newest number nothing is certain
 * but what a producer that goes on in order implies.
 */
function merge(states: Map<string, ProducerState>, id: string, epoch: number, next: number): void {
  const known = states.get(id);
  if (known !== undefined && (known.epoch > epoch || (known.epoch === epoch && known.next >= next))) return;
  states.set(id, { epoch, certain: 0, next });
}

const NEWEST_SQL = `
  SELECT project, producer AS id, max(producer_epoch) AS epoch, argMax(producer_seq, (producer_epoch, producer_seq)) + 1 AS next
  FROM log_index WHERE producer IS NOT NULL AND producer_epoch IS NOT NULL AND producer_seq IS NOT NULL GROUP BY project, producer`;
