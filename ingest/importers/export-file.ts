/** Writes episodes one per line: to a stream, or to a file that appears only when it is complete. */
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import { once } from 'node:events';
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { episodeOf } from './export-verifiers.ts';
import { writeJson } from './json-text.ts';

/** Where rollouts are read from. Slices are the log's values in log order, with large values put back and repeated events left out. */
export type EpisodeSource = {
  /** Rollouts of a run, in a stable order. */
  rollouts(project: string, run: string, signal: AbortSignal): AsyncIterable<string>;
  rolloutEvents(project: string, run: string, rollout: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
};

export type ExportOptions = {
  readonly project: string;
  readonly run: string;
  /** Only these; all of the run when empty. */
  readonly rollouts?: readonly string[];
  readonly signal: AbortSignal;
  readonly onEpisode?: (episodes: number, bytes: number) => void;
};
export type ExportReport = {
  episodes: number;
  bytes: number;
  /** Rollouts that have no `rollout.started` and so are no episodes. */
  readonly incomplete: string[];
  /** What a v1 episode has no place for: events by type, and fields as `<type>: <field>`. */
  readonly left: Record<string, number>;
};

/** Takes one line; resolves when more can be taken. */
type WriteLine = (line: Uint8Array) => Promise<void>;

/** Writes every episode of the run as a line of JSON. Memory is bounded by the largest rollout. `not_found` when there is none. */
export async function exportEpisodes(source: EpisodeSource, options: ExportOptions, writeLine: WriteLine): Promise<ExportReport> {
  const { project, run, signal } = options;
  const report: ExportReport = { episodes: 0, bytes: 0, incomplete: [], left: {} };
  const chosen = options.rollouts ?? [];
  const line = new ByteWriter(64 * 1024);
  for await (const rollout of chosen.length > 0 ? chosen : source.rollouts(project, run, signal)) {
    signal.throwIfAborted();
    const found = await episodeOf(rollout, source.rolloutEvents(project, run, rollout, signal));
    if (found === null) {
      report.incomplete.push(rollout);
      continue;
    }
    for (const [what, count] of found.left) report.left[what] = (report.left[what] ?? 0) + count;
    line.clear();
    writeJson(found.episode, line);
    line.byte(0x0a);
    await writeLine(line.view());
    report.episodes++;
    report.bytes += line.length;
    options.onEpisode?.(report.episodes, report.bytes);
  }
  if (report.episodes === 0)
    throw new TapedeckError('not_found', `no complete rollout of run ${run} in project ${project}: nothing to export`);
  return report;
}

/** To standard output or another stream, at the reader's pace. */
export function lineWriter(stream: Writable): WriteLine {
  let broken: Error | null = null;
  stream.once('error', (error) => (broken = error));
  return async (line) => {
    try {
      if (broken !== null) throw broken;
      // the line's buffer is written to again after this
      if (!stream.write(Buffer.from(line))) await once(stream, 'drain');
    } catch (error) {
      throw new TapedeckError('aborted', 'the reader of the export went away', { cause: error });
    }
  };
}

/**
 * Runs `work` with a line writer into a new file beside `path`, makes it durable and moves it to `path` in one step; after an error nothing is left behind
 * and an older file stays as it was. Errors: `not_writable`, `disk_full`.
 */
export async function writeFileWhole<T>(path: string, work: (writeLine: WriteLine) => Promise<T>): Promise<T> {
  const draft = join(dirname(path), `.${basename(path)}.partial`);
  const file = await open(draft, 'w').catch((error: unknown) => {
    throw fileError(error, path);
  });
  try {
    const result = await work(async (line) => {
      await file.writev([line]).catch((error: unknown) => {
        throw fileError(error, path);
      });
    });
    await file.sync();
    await file.close();
    await rename(draft, path);
    return result;
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(draft, { force: true });
    throw error;
  }
}

function fileError(error: unknown, path: string): TapedeckError {
  const { code } = error as NodeJS.ErrnoException;
  return new TapedeckError(code === 'ENOSPC' ? 'disk_full' : 'not_writable', `cannot write ${path}: ${code ?? 'unknown error'}`, {
    cause: error,
  });
}
