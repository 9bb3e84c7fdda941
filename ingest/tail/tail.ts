/**
 * The live tail of a folder: complete lines of growing files go to the server as they come. One round takes a piece of every changed file, waits until the server has
 * acknowledged all of it, and only then moves the places; the state file follows within a second. So a kill at any moment loses nothing, and what is sent again has the
 * same event ids.
 */
import { lstat, open, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { isTapedeckError } from '../../base/errors.ts';
import type { Problem } from '../../base/result.ts';
import { compressionOf } from '../importers/file-bytes.ts';
import { openLanes } from '../importers/lanes.ts';
import { jsonReader } from '../importers/read-json.ts';
import { recognise } from '../importers/recognise.ts';
import { addIssue, emptyReport, type ImportReport } from '../importers/report.ts';
import { HEAD_MARK_BYTES, type Place } from './place.ts';
import { placesIn, type FileStat } from './places.ts';
import { bytesAt, markAt } from './read-at.ts';
import { readState } from './state-file.ts';
import { IDLE, save, skip, type Step, type Tailing, type TailOptions } from './tailing.ts';
import { takeLines } from './take-lines.ts';
import { takeWhole } from './take-whole.ts';
import { isRemote, watchFolder } from './watch-folder.ts';

const HEAD_BYTES = 1024 * 1024;
/** A round ends when it has read this much. */
const ROUND_BYTES = 16 * 1024 * 1024;
const ROUND_FILES = 256;
/** Notices that come together are one round. */
const GATHER_MS = 20;
const SAVE_MS = 1_000;
/** On a network folder nobody tells us. */
const REMOTE_SWEEP_MS = 1_000;

/** Runs until the signal aborts or, with `once`, until everything that is there was taken. Rejects when the sink gives up or the signal aborts; `report` is filled as it goes. */
export async function tail(options: TailOptions, report: ImportReport = emptyReport()): Promise<ImportReport> {
  const state = await readState(options.state, options.target);
  const folder = watchFolder(options.root);
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
  const work: Tailing = {
    options, report, lanes, folder, read: jsonReader(), places: placesIn(options.root, state.places), entries: new Map(), runs: new Set(state.runs),
    startedRuns: new Set(state.runs),
    firstSeen: new Map(), scanned: new Map(),
    later: new Set(), skipped: new Set(), mapping: { project: options.target.project ?? undefined, run: options.target.run ?? undefined }, isChanged: false, cannotSave: false,
  }; // prettier-ignore
  try {
    // whether places can be kept is known before anything is sent
    await save(work, { strict: true });
    await follow(work);
  } finally {
    folder.close();
    await save(work);
  }
  return report;
}

async function follow(work: Tailing): Promise<void> {
  const { options, folder } = work;
  const { clock, signal } = options;
  const sweepMs = (await isRemote(options.root)) ? Math.min(options.sweepMs, REMOTE_SWEEP_MS) : options.sweepMs;
  let sweptAt = -Infinity;
  let savedAt = -Infinity;
  let toldBlind = false;
  for (;;) {
    signal.throwIfAborted();
    if (clock.monotonicMs() - sweptAt >= (folder.blind === null ? sweepMs : Math.min(sweepMs, REMOTE_SWEEP_MS))) {
      const there = await folder.sweep();
      sweptAt = clock.monotonicMs();
      work.isChanged = work.places.forget(new Set(there.map((path) => relative(options.root, path)))) || work.isChanged;
      if (folder.blind !== null && !toldBlind) options.onNote?.(`not every folder is watched: ${folder.blind}; it is swept instead`);
      toldBlind = folder.blind !== null;
    }
    for (const path of work.later) folder.put(path);
    work.later.clear();
    while (folder.pending > 0) {
      signal.throwIfAborted();
      await round(work);
      if (clock.monotonicMs() - savedAt >= SAVE_MS) {
        await save(work);
        savedAt = clock.monotonicMs();
      }
    }
    if (options.once) {
      work.places.forgetLost();
      return save(work);
    }
    const isDue = work.isChanged || work.later.size > 0;
    await wait(work, Math.max(0, isDue ? Math.min(SAVE_MS, sweepMs) : sweepMs - (clock.monotonicMs() - sweptAt)));
    if (work.isChanged && clock.monotonicMs() - savedAt >= SAVE_MS) {
      await save(work);
      savedAt = clock.monotonicMs();
    }
  }
}

/** Until something changes, or for `ms`. */
async function wait({ options, folder }: Tailing, ms: number): Promise<void> {
  const done = new AbortController();
  const stop = (): void => done.abort();
  options.signal.addEventListener('abort', stop, { once: true });
  try {
    const isChanged = await Promise.race([folder.changed().then(() => true), options.clock.sleep(ms, done.signal).then(() => false, () => false)]); // prettier-ignore
    if (isChanged) await options.clock.sleep(GATHER_MS, options.signal);
  } finally {
    options.signal.removeEventListener('abort', stop);
    done.abort();
  }
}

/** Takes a piece of each changed file; the places move when all of it is acknowledged. */
async function round(work: Tailing): Promise<void> {
  const { folder, lanes, places, options, report } = work;
  const moved: Place[] = [];
  const taken = new Set<string>();
  const again = new Set<string>();
  let bytes = 0;
  while (taken.size < ROUND_FILES && bytes < ROUND_BYTES && folder.pending > 0) {
    const [path] = folder.take(1) as [string];
    if (taken.has(path)) {
      // its place moves at the end of this round
      again.add(path);
      continue;
    }
    taken.add(path);
    try {
      const step = await advance(path, work);
      if (step.place !== null) moved.push(step.place);
      bytes += step.bytes;
      if (step.more) again.add(path);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (isTapedeckError(error) || typeof code !== 'string') throw error;
      if (code !== 'ENOENT') addIssueOnce(work, path, { code: 'not_found', message: `cannot read it: ${code}` });
    }
  }
  await lanes.flush();
  for (const run of work.runs) work.startedRuns.add(run);
  for (const place of moved) places.set(place);
  for (const path of again) folder.put(path);
  if (moved.length > 0) work.isChanged = true;
  const lines = report.files.reduce((sum, file) => sum + file.lines, 0);
  options.onProgress?.({ files: report.files.length, lines, sent: report.sent, waiting: folder.pending });
}

async function advance(path: string, work: Tailing): Promise<Step> {
  const file = await open(path, 'r');
  try {
    const there = await file.stat();
    if (!there.isFile()) return IDLE;
    const known = await work.places.find(relative(work.options.root, path), there, file);
    const place = known ?? (await begin(path, there, file, work));
    if (place === null) return IDLE;
    if (known === null) work.scanned.delete(path);
    if (place.kind === 'skipped') {
      skip(path, place.reason ?? '', work);
      return { ...IDLE, place: known === null ? place : null };
    }
    return place.kind === 'whole' ? await takeWhole(path, place, there, work) : await takeLines(path, place, there, file, work);
  } finally {
    await file.close();
  }
}

/** What a file is that was never seen; null while too little of it is there to tell. */
async function begin(path: string, there: FileStat, file: FileHandle, work: Tailing): Promise<Place | null> {
  const head = await bytesAt(file, 0, Math.min(there.size, HEAD_BYTES));
  const base = {
    path: relative(work.options.root, path),
    dev: there.dev,
    ino: there.ino,
    offset: 0,
    lines: 0,
    mark: '',
    size: -1,
    changedMs: -1,
    reason: null,
  };
  const covered = Math.min(head.length, HEAD_MARK_BYTES);
  const mark = { offset: covered, mark: await markAt(file, covered) };
  if (await isShadow(path))
    return { ...base, ...mark, kind: 'skipped', format: null, reason: 'the same episodes are in the folder all beside it' };
  if (compressionOf(head) !== 'none') return { ...base, ...mark, kind: 'whole', format: null };
  const isTold = head.includes(0x0a) || head.length >= HEAD_BYTES || (work.options.once && head.length > 0);
  const isPage = basename(path) === 'rollouts_raw.json';
  if ((!isTold && !isPage) || head.toString('latin1').trim() === '') return null;
  const recognised = recognise(head, basename(path));
  if ('reason' in recognised) {
    // a first line that is not whole yet says nothing for good
    if (head.includes(0x0a) || head.length >= HEAD_BYTES)
      return { ...base, ...mark, kind: 'skipped', format: null, reason: recognised.reason };
    if (work.options.once) skip(path, recognised.reason, work);
    return null;
  }
  if (recognised.format === 'verifiers-v0-page' || recognised.format === 'atif')
    return { ...base, ...mark, kind: 'whole', format: recognised.format };
  return { ...base, kind: 'lines', format: recognised.format, mark: await markAt(file, 0) };
}

/** prime-rl writes every episode to `all`, and those it trains on to `effective` a second time, with advantages. */
async function isShadow(path: string): Promise<boolean> {
  const folder = dirname(path);
  if (basename(folder) !== 'effective') return false;
  const twin = await lstat(join(dirname(folder), 'all', basename(path))).catch(() => null);
  return twin?.isFile() === true;
}

function addIssueOnce(work: Tailing, path: string, { code, message }: Problem): void {
  if (work.skipped.has(path)) return;
  work.skipped.add(path);
  addIssue(work.report, { path, line: null, code, message });
  work.options.onNote?.(`${path}: ${message} (${code})`);
}
