/** Exports of a server: the formats of the query lane, and verifiers' own and ATIF, which the importers know how to write. */
import type { Clock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { conversationFormats } from '../../query/exports/conversation-formats.ts';
import type { ExportFormat } from '../../query/exports/export-format.ts';
import { ExportJobs } from '../../query/exports/export-jobs.ts';
import { rowsFormats } from '../../query/exports/rows-format.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { atifFormat } from './atif-exports.ts';
import { verifiersFormats } from './verifiers-exports.ts';

type Parts = {
  readonly store: ColumnStore;
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly directory: string;
  readonly clock: Clock;
};

export function openExports({ directory, clock, ...parts }: Parts): { jobs: ExportJobs; formats: readonly ExportFormat[] } {
  const formats = [...rowsFormats(parts.store), ...conversationFormats(parts.store), ...verifiersFormats(parts), atifFormat(parts)];
  return { jobs: new ExportJobs({ directory, clock, random: systemRandom }), formats };
}
