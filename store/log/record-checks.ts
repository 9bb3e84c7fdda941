import { TapedeckError } from '../../base/errors.ts';
import type { LogRecord } from './event-log.ts';

/** Throws `record_too_large` for the first record whose key and value are longer than the limit. */
export function checkRecordSizes(records: readonly LogRecord[], maxRecordBytes: number): void {
  for (const [index, { key, value }] of records.entries()) {
    const bytes = key.length + value.length;
    if (bytes <= maxRecordBytes) continue;
    throw new TapedeckError(
      'record_too_large',
      `record ${index} has ${bytes} bytes, the log takes ${maxRecordBytes}: nothing was appended; large values belong into blobs`,
      { details: { index, bytes, limit: maxRecordBytes } },
    );
  }
}

export function checkPartition(partition: number, partitions: number): void {
  if (Number.isInteger(partition) && partition >= 0 && partition < partitions) return;
  throw new RangeError(`there is no partition ${partition}: the log has ${partitions}`);
}
