/** Files of lines: what is complete of them goes out, the rest waits. */
import type { FileHandle } from 'node:fs/promises';
import type { Problem, Result } from '../../base/result.ts';
import { MAX_LINE_BYTES, readLines, type Line } from '../importers/line-reader.ts';
import type { Format } from '../importers/recognise.ts';
import { addIssue, addWarning, type FileReport } from '../importers/report.ts';
import { mapEpisode, mapRow, type MappedRecord, type Pinned } from './map-records.ts';
import { readMetadata, tellMetadata, waitsForMetadata, type Metadata } from './metadata-file.ts';
import type { Place } from './place.ts';
import type { FileStat } from './places.ts';
import { bytesAt, markAt, readAt } from './read-at.ts';
import { IDLE, save, SETTLE_MS, type Step, type Tailing } from './tailing.ts';

export async function takeLines(path: string, place: Place, there: FileStat, file: FileHandle, work: Tailing): Promise<Step> {
  const { options } = work;
  const maxLineBytes = options.maxLineBytes ?? MAX_LINE_BYTES;
  const entry = entryOf(path, place.format as Format, work);
  const scanned = work.scanned.get(path);
  const taken = await readAt(file, place.offset, there.size, { maxLineBytes, ...(scanned !== undefined && { scanned }) });
  const at = { ...place, dev: there.dev, ino: there.ino };
  if (taken.kind === 'nothing') {
    work.scanned.set(path, taken.scanned);
    return takeRest(path, at, there, file, entry, work);
  }
  work.scanned.delete(path);
  if (taken.kind === 'too-long') {
    entry.lines++;
    fail(
      path,
      place.lines + 1,
      { code: 'record_too_large', message: `a line of ${taken.length} bytes is over the limit of ${maxLineBytes}` },
      entry,
      work,
    );
    return {
      place: { ...at, offset: taken.end, lines: place.lines + 1, mark: await markAt(file, taken.end) },
      bytes: taken.length,
      more: true,
    };
  }
  const pinned = { ...place.pinned };
  if (await waitsForMetadata(path, at, work)) return IDLE;
  const next = await takeBytes(path, { ...at, pinned }, taken.bytes, entry, work);
  return {
    place: { ...next, offset: taken.end, lines: place.lines + taken.lines, mark: await markAt(file, taken.end) },
    bytes: taken.bytes.length,
    more: true,
  };
}

/** A last line without its line feed: a writer that is still at it, or the end of the file. Taken when nothing follows for a while and it is a whole document. */
async function takeRest(path: string, place: Place, there: FileStat, file: FileHandle, entry: FileReport, work: Tailing): Promise<Step> {
  const { options } = work;
  const length = there.size - place.offset;
  if (length === 0) return { ...IDLE, place: await tellMetadata(path, place, file, work) };
  const ageMs = options.clock.nowMicros() / 1000 - there.mtimeMs;
  if (!options.once && ageMs >= 0 && ageMs < SETTLE_MS) {
    work.later.add(path);
    return IDLE;
  }
  if (length > (options.maxLineBytes ?? MAX_LINE_BYTES)) return IDLE;
  const bytes = await bytesAt(file, place.offset, there.size);
  if (bytes.toString('latin1').trim() === '') return IDLE;
  if (!work.read(bytes).ok) {
    if (options.once) entry.torn++;
    return IDLE;
  }
  const next = await takeBytes(path, { ...place, pinned: { ...place.pinned } }, bytes, entry, work);
  // the line feed that may follow ends this line
  return { place: { ...next, offset: there.size, mark: await markAt(file, there.size) }, bytes: length, more: false };
}

async function takeBytes(path: string, place: Place, bytes: Buffer, entry: FileReport, work: Tailing): Promise<Place> {
  const metadata = place.format === 'verifiers-v0' ? await readMetadata(path) : null;
  const pinned = place.pinned as Pinned;
  const known = Object.keys(pinned).length;
  const mapped: { readonly line: number; readonly record: MappedRecord }[] = [];
  for await (const lines of readLines(onePiece(bytes))) {
    for (const line of lines) {
      entry.lines++;
      const record = mapLine(line, place, pinned, metadata, work);
      if (record.ok) mapped.push({ line: place.lines + line.number, record: record.value });
      else fail(path, place.lines + line.number, record.error, entry, work);
    }
  }
  const isPinned = Object.keys(pinned).length > known;
  const next: Place = isPinned ? { ...place, metadataMs: metadata?.changedMs ?? null } : place;
  if (isPinned) {
    // the same rows must make the same events after a kill: what they take from their run is durable before they are sent
    work.places.set({ ...next, offset: place.offset, lines: place.lines });
    await save(work);
  }
  for (const { line, record } of mapped) await send(path, line, record, entry, work);
  return next;
}

function mapLine(line: Line, place: Place, pinned: Pinned, metadata: Metadata | null, work: Tailing): Result<MappedRecord> {
  const bytes = line.bytes as Buffer;
  const value = work.read(bytes);
  if (!value.ok) return value;
  if (place.format === 'verifiers-v1') return mapEpisode(value.value, work.mapping);
  const at = { number: place.lines + line.number, bytes };
  return mapRow(value.value, at, { pinned, metadata: metadata?.value ?? null, options: work.mapping });
}

async function send(
  path: string,
  line: number,
  { run, runEvent, events, warnings }: MappedRecord,
  entry: FileReport,
  work: Tailing,
): Promise<void> {
  const origin = { path, line };
  for (const { field, message } of warnings) addWarning(work.report, field, message, path, line);
  if (!work.runs.has(run)) {
    work.runs.add(run);
    await work.lanes.send([runEvent], origin);
    entry.events++;
  }
  await work.lanes.send(events, origin);
  entry.events += events.length;
  entry.imported++;
}

function fail(path: string, line: number, { code, message, field }: Problem, entry: FileReport, work: Tailing): void {
  entry.failed++;
  addIssue(work.report, { path, line, code, message, ...(field !== undefined && { field }) });
  work.options.onNote?.(`${path}:${line}: ${message} (${code})`);
}

async function* onePiece(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

function entryOf(path: string, format: Format, { entries, report }: Tailing): FileReport {
  const known = entries.get(path);
  if (known !== undefined) return known;
  const entry: FileReport = { path, format, lines: 0, imported: 0, failed: 0, torn: 0, events: 0 };
  entries.set(path, entry);
  report.files.push(entry);
  return entry;
}
