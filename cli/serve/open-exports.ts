/** Exports of a server: the formats of the query lane, and verifiers' own, which the importers know how to write. */
import { ByteWriter } from '../../base/byte-writer.ts';
import type { Clock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { episodeOf } from '../../ingest/importers/export-verifiers.ts';
import { writeJson } from '../../ingest/importers/json-text.ts';
import { conversationFormats, rowsOf } from '../../query/exports/conversation-formats.ts';
import type { ExportFormat } from '../../query/exports/export-format.ts';
import { ExportJobs } from '../../query/exports/export-jobs.ts';
import { rowsFormats } from '../../query/exports/rows-format.ts';
import { rolloutSlices } from '../../query/operations/rollout-events.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';

type Parts = {
  readonly store: ColumnStore;
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly directory: string;
  readonly clock: Clock;
};

export function openExports({ directory, clock, ...parts }: Parts): { jobs: ExportJobs; formats: readonly ExportFormat[] } {
  const formats = [...rowsFormats(parts.store), ...conversationFormats(parts.store), verifiersFormat(parts)];
  return { jobs: new ExportJobs({ directory, clock, random: systemRandom }), formats };
}

/** One episode per rollout of the list, from its original events. What an episode has no place for is counted by event type. */
function verifiersFormat({ store, log, blobs }: Pick<Parts, 'store' | 'log' | 'blobs'>): ExportFormat {
  return {
    name: 'verifiers-v1',
    about: 'episodes of verifiers v1, one per line (traces.jsonl), from the original events; rollouts without a start are left out',
    extension: 'traces.jsonl',
    mediaType: 'application/jsonl',
    of: 'rollouts',
    write: async (request, sink, signal) => {
      const left: Record<string, number> = {};
      const incomplete: string[] = [];
      const line = new ByteWriter(64 * 1024);
      for await (const row of rowsOf(store, request, ['run', 'rollout'], signal, () => {})) {
        const { run, rollout } = row as { run: string; rollout: string };
        const found = await episodeOf(rollout, rolloutSlices({ project: request.project, run, rollout }, { store, log, blobs }, signal));
        if (found === null) {
          incomplete.push(rollout);
          continue;
        }
        for (const [type, count] of found.left) left[type] = (left[type] ?? 0) + count;
        line.clear();
        writeJson(found.episode, line);
        line.byte(0x0a);
        await sink.write(Uint8Array.from(line.view()));
        sink.count(1);
      }
      return { asOf: null, left, incomplete };
    },
  };
}
