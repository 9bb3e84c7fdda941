/** Reads the found files, maps every record to events and sends them. What is wrong with one line never stops the rest. */
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { Problem, Result } from '../../base/result.ts';
import { trajectoryEvents } from './atif/import-atif.ts';
import type { Warning } from './event-list.ts';
import type { ImportedEvent } from './event-maker.ts';
import { fileBytes } from './file-bytes.ts';
import type { FoundFile } from './find-files.ts';
import { isList, isRecord, recordOf, type Json, type JsonRecord } from './json-value.ts';
import { openLanes, type LaneOptions, type Lanes } from './lanes.ts';
import { MAX_LINE_BYTES, readLines, type Line } from './line-reader.ts';
import { jsonReader, type JsonReader } from './read-json.ts';
import { addIssue, addWarning, emptyReport, type FileReport, type ImportReport } from './report.ts';
import { rowEvents } from './verifiers-v0.ts';
import { jsonText } from './verifiers-v0-row.ts';
import { v0Run, type V0Run } from './verifiers-v0-run.ts';
import { episodeEvents, type ImportOptions } from './verifiers-v1.ts';

export type ImportFilesOptions = ImportOptions &
  Omit<LaneOptions, 'onResult'> & {
    readonly maxLineBytes?: number;
    readonly onProgress?: (progress: { readonly bytesRead: number; readonly lines: number; readonly sent: number }) => void;
  };

/** Maps one record of a file; `runEvents` are sent when their run was not seen in this file before. */
type Mapped = {
  readonly events: readonly ImportedEvent[];
  readonly warnings: readonly Warning[];
  readonly run: string;
  readonly runEvent: ImportedEvent;
};
type Mapper = (record: Json, bytes: Uint8Array, number: number) => Result<Mapped>;

type Work = {
  readonly options: ImportFilesOptions;
  readonly report: ImportReport;
  readonly lanes: Lanes;
  readonly read: JsonReader;
  bytesRead: number;
};

/**
 * Imports files in order. Bad lines, damaged files and refused events are in the report; the promise rejects only when the sink gives up or the signal
 * aborts, and then `report` (given as second argument to be filled) holds what was done until then.
 */
export async function importFiles(
  files: readonly FoundFile[],
  options: ImportFilesOptions,
  report: ImportReport = emptyReport(),
): Promise<ImportReport> {
  const lanes = openLanes({ ...options, onResult: (result, items) => {
    report.sent += items.length;
    report.accepted += result.accepted;
    report.duplicates += result.duplicates;
    report.rejected += result.rejected.length;
    for (const { event } of items) report.events[event.type] = (report.events[event.type] ?? 0) + 1;
    for (const { index, code, message, field } of result.rejected) {
      const item = items[index];
      addIssue(report, { path: item?.origin.path ?? '', line: item?.origin.line ?? null, code, message: `${item?.event.type ?? 'event'}: ${message}`, ...(field !== undefined && { field }) });
    }
  } }); // prettier-ignore
  const work: Work = { options, report, lanes, read: jsonReader(), bytesRead: 0 };
  try {
    for (const file of files) await importFile(file, work);
  } finally {
    await lanes.flush();
  }
  return report;
}

async function importFile(file: FoundFile, work: Work): Promise<void> {
  const entry: FileReport = { path: file.path, format: file.format, lines: 0, imported: 0, failed: 0, torn: 0, events: 0 };
  work.report.files.push(entry);
  const seen = new Set<string>();
  try {
    const map = await mapperFor(file, work);
    if (file.isDocument) await importDocument(file, entry, map, seen, work);
    else await importLines(file, entry, map, seen, work);
  } catch (error) {
    // a damaged file is one problem; a sink that gave up, or the signal, is the end of the import
    if (!isTapedeckError(error, 'not_found', 'truncated_body', 'broken_compression', 'inflated_too_large', 'record_too_large')) throw error;
    addIssue(work.report, { path: file.path, line: null, code: error.code, message: error.message });
  }
}

async function importLines(file: FoundFile, entry: FileReport, map: Mapper, seen: Set<string>, work: Work): Promise<void> {
  const { options } = work;
  for await (const lines of readLines(bytesOf(file.path, work), options.maxLineBytes ?? MAX_LINE_BYTES)) {
    for (const line of lines) await importLine(line, file.path, entry, map, seen, work);
    options.onProgress?.({ bytesRead: work.bytesRead, lines: entry.lines, sent: work.report.sent });
  }
}

async function importLine(line: Line, path: string, entry: FileReport, map: Mapper, seen: Set<string>, work: Work): Promise<void> {
  entry.lines++;
  if (line.bytes === null) {
    const limit = work.options.maxLineBytes ?? MAX_LINE_BYTES;
    failLine(
      path,
      line.number,
      { code: 'record_too_large', message: `a line of ${line.length} bytes is over the limit of ${limit}` },
      entry,
      work,
    );
    return;
  }
  const parsed = work.read(line.bytes);
  if (!parsed.ok && !line.terminated) {
    entry.lines--;
    entry.torn++;
    return;
  }
  const mapped = parsed.ok ? map(parsed.value, line.bytes, line.number) : parsed;
  await take(mapped, path, line.number, entry, seen, work);
}

async function take(mapped: Result<Mapped>, path: string, number: number, entry: FileReport, seen: Set<string>, work: Work): Promise<void> {
  if (!mapped.ok) {
    failLine(path, number, mapped.error, entry, work);
    return;
  }
  const { run, runEvent, events, warnings } = mapped.value;
  for (const { field, message } of warnings) addWarning(work.report, field, message, path, number);
  const origin = { path, line: number };
  if (!seen.has(run)) {
    seen.add(run);
    await work.lanes.send([runEvent], origin);
    entry.events++;
  }
  await work.lanes.send(events, origin);
  entry.events += events.length;
  entry.imported++;
}

function failLine(path: string, number: number, problem: Problem, entry: FileReport, work: Work): void {
  entry.failed++;
  const { code, message, field } = problem;
  addIssue(work.report, { path, line: number, code, message, ...(field !== undefined && { field }) });
}

/** A document is read whole, up to the limit of a line. */
async function importDocument(file: FoundFile, entry: FileReport, map: Mapper, seen: Set<string>, work: Work): Promise<void> {
  const document = work.read(withoutMark(await wholeFile(file.path, work)));
  const records = document.ok ? recordsOf(document.value, file.format) : null;
  if (!document.ok || records === null) {
    const problem: Problem = document.ok ? { code: 'wrong_type', message: 'samples must be a list', field: 'samples' } : document.error;
    addIssue(work.report, { path: file.path, line: null, code: problem.code, message: problem.message });
    return;
  }
  for (const [index, record] of records.entries()) {
    entry.lines++;
    await take(map(record, Buffer.from(jsonText(record)), index + 1), file.path, index + 1, entry, seen, work);
  }
}

/** The samples of a page, the trajectories of a list, or the one that the document is. */
function recordsOf(document: Json, format: FoundFile['format']): readonly Json[] | null {
  if (format === 'atif') return isList(document) ? document : [document];
  const samples = recordOf(document)?.['samples'];
  return isList(samples) ? samples : null;
}

/** Without the byte order mark that some writers put first. */
function withoutMark(text: Buffer): Buffer {
  return text.at(0) === 0xef ? text.subarray(3) : text;
}

async function wholeFile(path: string, work: Work): Promise<Buffer> {
  const limit = work.options.maxLineBytes ?? MAX_LINE_BYTES;
  const parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of bytesOf(path, work)) {
    parts.push(chunk);
    length += chunk.length;
    if (length > limit) throw new TapedeckError('record_too_large', `a document of more than ${limit} bytes is over the limit`);
  }
  return Buffer.concat(parts);
}

function bytesOf(path: string, work: Work): AsyncGenerator<Buffer> {
  return fileBytes(path, { signal: work.options.signal, onRead: (bytes) => void (work.bytesRead += bytes) });
}

async function mapperFor(file: FoundFile, work: Work): Promise<Mapper> {
  const { options } = work;
  if (file.format === 'verifiers-v1') return (record) => episodeEvents(record, options);
  if (file.format === 'atif') return (record) => trajectoryEvents(record, options);
  const metadata = await metadataOf(file, work);
  const runs = new Map<string, V0Run>();
  return (record, bytes, number) => {
    const row: JsonRecord = isRecord(record) ? record : {};
    const key = typeof row['run_id'] === 'string' ? row['run_id'] : '';
    const run = runs.get(key) ?? v0Run({ value: row, bytes }, metadata, options);
    const mapped = rowEvents(record, { number, bytes }, run, options.project);
    if (!mapped.ok) return mapped;
    runs.set(key, run);
    return { ok: true, value: { ...mapped.value, runEvent: run.event } };
  };
}

/** metadata.json as an object; null, with an issue, when it is none. */
async function metadataOf(file: FoundFile, work: Work): Promise<JsonRecord | null> {
  if (file.metadata === null) return null;
  const text = await wholeFile(file.metadata, work);
  if (text.toString('latin1', 0, 40).startsWith('version https://git-lfs')) {
    addIssue(work.report, {
      path: file.metadata,
      line: null,
      code: 'invalid_json',
      message: 'a Git LFS pointer: rows are imported without it',
    });
    return null;
  }
  const parsed = work.read(withoutMark(text));
  if (parsed.ok && isRecord(parsed.value)) return parsed.value;
  const message = parsed.ok ? 'must be an object: rows are imported without it' : parsed.error.message;
  addIssue(work.report, { path: file.metadata, line: null, code: parsed.ok ? 'wrong_type' : parsed.error.code, message });
  return null;
}
