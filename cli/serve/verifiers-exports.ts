/** verifiers' own formats as exports: the importers know how to write them. */
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { metadataOfRun, rowOfRollout } from '../../ingest/importers/export-verifiers-v0.ts';
import { episodeOf } from '../../ingest/importers/export-verifiers.ts';
import { writeJson } from '../../ingest/importers/json-text.ts';
import type { JsonRecord } from '../../ingest/importers/json-value.ts';
import { rowsOf } from '../../query/exports/conversation-formats.ts';
import type { ExportFormat, ExportReport, ExportRequest, ExportSink } from '../../query/exports/export-format.ts';
import { rolloutSlices, runStarts } from '../../query/operations/rollout-events.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';

type Parts = { readonly store: ColumnStore; readonly log: EventLog; readonly blobs: BlobStore };
type Written = { readonly line: JsonRecord; readonly left: ReadonlyMap<string, number> };
type MakeLine = (key: { readonly run: string; readonly rollout: string }) => Promise<Written | null>;

export function verifiersFormats(parts: Parts): ExportFormat[] {
  return [v1Format(parts), v0Format(parts)];
}

/** One episode per rollout of the list, from its original events. What does not come back by an import is counted, events by type and fields by name. */
function v1Format(parts: Parts): ExportFormat {
  return {
    name: 'verifiers-v1',
    about: 'episodes of verifiers v1, one per line (traces.jsonl), from the original events; rollouts without a start are left out',
    extension: 'traces.jsonl',
    mediaType: 'application/jsonl',
    of: 'rollouts',
    write: (request, sink, signal) =>
      writeLines(parts, request, sink, signal, async ({ run, rollout }) => {
        const found = await episodeOf(rollout, rolloutSlices({ project: request.project, run, rollout }, parts, signal));
        return found === null ? null : { line: found.episode, left: found.left };
      }),
  };
}

/** One row per rollout of one run, and the run's metadata.json beside it. */
function v0Format(parts: Parts): ExportFormat {
  return {
    name: 'verifiers-v0',
    about: 'rows of verifiers v0, one per rollout (results.jsonl), from the original events, with metadata.json beside it; the rollouts of one run, those without a start left out',
    extension: 'results.jsonl',
    mediaType: 'application/jsonl',
    of: 'rollouts',
    write: async (request, sink, signal) => {
      let only: string | null = null;
      const report = await writeLines(parts, request, sink, signal, async ({ run, rollout }) => {
        only ??= run;
        if (run !== only) throw new TapedeckError('bad_request', `metadata.json describes one run, and the list has rollouts of ${JSON.stringify(only)} and ${JSON.stringify(run)}: filter by run`);
        const found = await rowOfRollout(rolloutSlices({ project: request.project, run, rollout }, parts, signal));
        return found === null ? null : { line: found.row, left: found.left };
      });
      if (only !== null) {
        const metadata = await metadataOfRun(runStarts({ project: request.project, run: only }, parts, signal));
        const text = new ByteWriter(1024);
        writeJson(metadata, text);
        await sink.beside('metadata.json', text.take());
      }
      return report;
    },
  };
} // prettier-ignore

async function writeLines({ store }: Parts, request: ExportRequest, sink: ExportSink, signal: AbortSignal, make: MakeLine): Promise<ExportReport> {
  const left: Record<string, number> = {};
  const incomplete: string[] = [];
  const out = new ByteWriter(64 * 1024);
  for await (const row of rowsOf(store, request, ['run', 'rollout'], signal, () => {})) {
    const key = row as { run: string; rollout: string };
    const found = await make(key);
    if (found === null) {
      incomplete.push(key.rollout);
      continue;
    }
    for (const [what, count] of found.left) left[what] = (left[what] ?? 0) + count;
    out.clear();
    writeJson(found.line, out);
    out.byte(0x0a);
    await sink.write(Uint8Array.from(out.view()));
    sink.count(1);
  }
  return { asOf: null, left, incomplete };
} // prettier-ignore
