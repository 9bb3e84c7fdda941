/** Delivers what a dead process left in the spool: one session, in order, under the numbers it was recorded with. */
import { writeFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import { producerHead, producerOf } from '../encode-event.ts';
import { readSegment } from '../spool/segment-codec.ts';
import { segmentReader, type SegmentReader } from '../spool/segment-files.ts';
import { removeSession } from '../spool/sessions.ts';
import type { Post } from './post.ts';
import { startSender, type BatchLimits, type Source } from './sender.ts';
import { readSaved, savedForm } from './wire-numbers.ts';
import type { Drained, Problem, Rejected } from './reports.ts';

export type DrainPorts = {
  readonly post: Post;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: BatchLimits;
  newId(): string;
  /** Keeps them before they are settled. Must not throw. */
  reject(session: string, rejected: readonly Rejected[]): Promise<void>;
  onProblem(problem: Problem | null): void;
  isOwner(): boolean;
};

/**
 * Delivers the session in the folder `path`, which this process has taken over, and removes it. Null when `signal` aborted first: what is settled then is gone from the
 * folder, the rest waits for the next one. Throws errors of the file system.
 */
export async function drainSession(spoolFolder: string, path: string, ports: DrainPorts, signal: AbortSignal): Promise<Drained | null> {
  const session = basename(path).split('~')[0] as string;
  const names = (await readdir(path)).filter((name) => name.endsWith('.seg')).toSorted();
  const reader = segmentReader();
  const left = await openLeftover(names.map((name) => join(path, name)), reader); // prettier-ignore
  const totals = left === null ? { acked: 0, duplicates: 0, rejected: 0, lost: 0 } : await deliver(path, session, left, ports, signal);
  if (totals === null) return null;
  const damagedBytes = await keepDamaged(spoolFolder, session, reader);
  await removeSession(spoolFolder, path);
  return { session, ...totals, damagedBytes };
}

type Totals = { acked: number; duplicates: number; rejected: number; lost: number };
type Leftover = { readonly source: Source; readonly producer: string; readonly totals: Totals; readonly finished: Promise<void> };

/** The source over the segments `paths`, or null when they hold nothing that is not settled. */
async function openLeftover(paths: readonly string[], reader: SegmentReader): Promise<Leftover | null> {
  let files = paths.map((path) => ({ path }));
  const extent = await extentOf(paths);
  if (extent === null) return null;
  let { settled } = extent;
  const totals: Totals = { acked: 0, duplicates: 0, rejected: 0, lost: 0 };
  const { promise: finished, resolve: finish } = deferred();
  const source: Source = {
    settled: () => settled,
    end: () => extent.end,
    waitingBytes: () => Number.POSITIVE_INFINITY,
    next: async (limits) => {
      const read = await reader.read(files, settled, limits);
      return read.events.length === 0 && read.lost === 0 ? { events: [], lost: extent.end - settled } : read;
    },
    settle: (to, outcome) => {
      settled = to;
      totals.acked += outcome.acked;
      totals.duplicates += outcome.duplicates;
      totals.rejected += outcome.rejected;
      const isDone = ({ path }: { path: string }): boolean => (reader.endOf(path) ?? Number.POSITIVE_INFINITY) <= to;
      for (const { path } of files) if (isDone({ path }) && !reader.damage.has(path)) unlink(path).catch(() => {});
      files = files.filter((file) => !isDone(file));
      if (to >= extent.end) finish();
    },
  };
  return { source, producer: extent.producer, totals, finished };
}

/**
 * Where it begins and ends. Begins: at the latest mark (the last file has it), or else at what the first readable record says was settled when it was written. Ends: behind the
 * last readable record.
 */
async function extentOf(paths: readonly string[]): Promise<{ settled: number; end: number; producer: string } | null> {
  let settled = 0;
  let end = 0;
  for (const path of paths.toReversed()) {
    const { records } = readSegment(await readFile(path));
    for (const record of records) {
      settled = Math.max(settled, record.settled);
      if (record.payload.length > 0) end = Math.max(end, record.seq + 1);
    }
    if (end > 0) break;
  }
  if (settled >= end) return null;
  for (const path of paths) {
    const first = readSegment(await readFile(path)).records.find(({ payload }) => payload.length > 0);
    const producer = first === undefined ? null : producerOf(first.payload);
    if (producer !== null) return { settled, end, producer };
  }
  return null;
}

async function deliver(path: string, session: string, left: Leftover, ports: DrainPorts, signal: AbortSignal): Promise<Totals | null> {
  const numbers = await readFile(join(path, 'numbers.json'), 'utf8').then(readSaved, () => null);
  const { promise: aborted, resolve: onAbort } = deferred();
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  const sender = startSender({
    ...ports,
    source: left.source,
    limits: { ...ports.limits, lingerMs: 0 },
    producer: producerHead(left.producer),
    numbers,
    sentBefore: true,
    saveNumbers: (fresh) => {
      try {
        writeFileSync(join(path, 'numbers.json'), JSON.stringify(savedForm(fresh)));
      } catch {
        // whoever drains it next is answered as we were, and takes numbers of its own
      }
    },
    reject: async (rejected) => {
      left.totals.lost += rejected.filter(({ event }) => event === null).length;
      await ports.reject(session, rejected);
    },
  });
  await Promise.race([left.finished, aborted]);
  signal.removeEventListener('abort', onAbort);
  await sender.stop();
  return left.source.settled() >= left.source.end() ? left.totals : null;
}

/** Files with an unreadable stretch are kept for whoever wants to look, but for a torn end, which every kill may leave. Returns the bytes of all such stretches. */
async function keepDamaged(spoolFolder: string, session: string, reader: SegmentReader): Promise<number> {
  let bytes = 0;
  for (const [path, stretches] of reader.damage) {
    bytes += stretches.reduce((sum, each) => sum + each.bytes, 0);
    if (stretches.every(({ isEnd }) => isEnd)) continue;
    await mkdir(join(spoolFolder, 'damaged'), { recursive: true });
    await rename(path, join(spoolFolder, 'damaged', `${session}-${basename(path)}`)).catch(() => {});
  }
  return bytes;
}

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
