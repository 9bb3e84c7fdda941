/** Files that are taken when they are complete: compressed ones and pages. */
import { findFiles } from '../importers/find-files.ts';
import { importFiles } from '../importers/import-files.ts';
import { MAX_LINE_BYTES } from '../importers/line-reader.ts';
import { addIssue, addWarning, emptyReport, type ImportReport } from '../importers/report.ts';
import type { Place } from './place.ts';
import type { FileStat } from './places.ts';
import { IDLE, SETTLE_MS, skip, type Step, type Tailing } from './tailing.ts';

/** A compressed file or a page, when it is complete: until then it is looked at again. */
export async function takeWhole(path: string, place: Place, there: FileStat, work: Tailing): Promise<Step> {
  const { options, report } = work;
  if (place.size === there.size && place.changedMs === there.mtimeMs) return IDLE;
  const ageMs = options.clock.nowMicros() / 1000 - there.mtimeMs;
  if (!options.once && ageMs >= 0 && ageMs < SETTLE_MS) {
    work.later.add(path);
    return IDLE;
  }
  const { files, skipped } = await findFiles([path]);
  if (files.length === 0) {
    skip(path, skipped[0]?.reason ?? 'nothing to import', work);
    return { ...IDLE, place: { ...place, kind: 'skipped', reason: skipped[0]?.reason ?? null, dev: there.dev, ino: there.ino } };
  }
  const own = emptyReport();
  const { sink, signal, lanes, batchBytes, batchEvents, maxLineBytes = MAX_LINE_BYTES } = options;
  await importFiles(files, { sink, signal, lanes, batchBytes, batchEvents, maxLineBytes, ...work.mapping }, own);
  const done = { ...place, dev: there.dev, ino: there.ino, size: there.size, changedMs: there.mtimeMs };
  const isCut = own.issues.some(({ code, line }) => line === null && code === 'truncated_body');
  // a file that is still being written: what was read of it is sent again then, under the same ids
  if (!isCut || options.once) addReport(own, report);
  return { place: done, bytes: there.size, more: false };
}

function addReport(from: ImportReport, to: ImportReport): void {
  to.files.push(...from.files);
  to.skipped.push(...from.skipped);
  for (const issue of from.issues) addIssue(to, issue);
  for (const { field, message, path, firstLine } of from.warnings) addWarning(to, field, message, path, firstLine);
  for (const [type, count] of Object.entries(from.events)) to.events[type] = (to.events[type] ?? 0) + count;
  to.sent += from.sent;
  to.accepted += from.accepted;
  to.duplicates += from.duplicates;
  to.rejected += from.rejected;
}
