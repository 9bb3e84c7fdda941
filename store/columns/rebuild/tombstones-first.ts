/**
 * The pass before a rebuild: deleted runs are deleted whatever their position, so their tombstones must be known before the first event is judged. Looks for the type's name
 * in the raw bytes, which is fast, and decodes only the few records that hold it.
 */
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { readEvent } from '../../../events/read-event.ts';
import type { EventLog } from '../../log/event-log.ts';
import { runKey } from '../projector/classify.ts';

const NEEDLE = Buffer.from('run.deleted');
const READ_BYTES = 16 * 1024 * 1024;

/** The deleted runs up to `ends`, as `runKey`s. */
export async function deletedRuns(log: EventLog, ends: readonly number[], signal: AbortSignal): Promise<Set<string>> {
  const runs = new Set<string>();
  const bounds = await log.positions(signal);
  for (const [partition, end] of ends.entries()) {
    let from = bounds[partition]?.first ?? 0;
    while (from < end) {
      const chunk = await log.read(partition, from, { maxBytes: READ_BYTES, signal });
      for (const { value, offset } of chunk.records) {
        if (offset >= end || !Buffer.from(value.buffer, value.byteOffset, value.byteLength).includes(NEEDLE)) continue;
        const read = readEvent(value);
        if (read.ok && read.value.type === 'run.deleted') runs.add(runKey(read.value.project ?? DEFAULT_PROJECT, read.value.run ?? ''));
      }
      from = chunk.next;
    }
  }
  return runs;
}
