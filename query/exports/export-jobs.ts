/**
 * Exports as jobs: a few run at a time, the others wait; the file is there to be read, also in parts, until it expires. Jobs live as long as the server: their files are removed
 * when it starts.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import type { ExportFormat, ExportReport, ExportRequest } from './export-format.ts';

export type ExportJobsOptions = {
  readonly directory: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly atOnce?: number;
  /** Jobs that are remembered, with their files. */
  readonly kept?: number;
  readonly keepMs?: number;
  readonly maxBytes?: number;
};
export type ExportState = 'waiting' | 'running' | 'done' | 'failed' | 'cancelled';
export type ExportStatus = {
  readonly id: string;
  readonly project: string;
  readonly format: string;
  readonly of: string;
  readonly state: ExportState;
  readonly rows: number | null;
  readonly bytes: number;
  /** sha256 of the file; null until it is whole. */
  readonly sha256: string | null;
  /** Small files beside the file, by name; there once they are written. */
  readonly beside: readonly BesideFile[];
  readonly report: ExportReport | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** Microseconds since 1970 UTC, as text; null until then. */
  readonly created: string;
  readonly ended: string | null;
  readonly fileName: string;
};

export type BesideFile = { readonly name: string; readonly bytes: number; readonly sha256: string };

type Job = {
  readonly id: string;
  readonly format: ExportFormat;
  readonly request: ExportRequest;
  readonly path: string;
  readonly created: number;
  readonly stop: AbortController;
  state: ExportState;
  rows: number;
  isCounted: boolean;
  bytes: number;
  sha256: string | null;
  readonly beside: BesideFile[];
  report: ExportReport | null;
  error: { code: string; message: string } | null;
  ended: number | null;
};

const DEFAULTS = { atOnce: 2, kept: 100, keepMs: 24 * 3_600_000, maxBytes: 100 * 1024 ** 3 };

export class ExportJobs {
  readonly #options: ExportJobsOptions & typeof DEFAULTS;
  readonly #jobs = new Map<string, Job>();
  readonly #running = new Set<Promise<void>>();
  #isClosed = false;
  #made: Promise<unknown> | null = null;

  constructor(options: ExportJobsOptions) {
    this.#options = { ...DEFAULTS, ...options };
  }

  /** Errors: `overloaded` when too many wait. */
  add(format: ExportFormat, request: ExportRequest): ExportStatus {
    if (this.#isClosed) throw new TapedeckError('closed', 'the server is closing');
    this.#expire();
    if (this.#jobs.size >= this.#options.kept) throw new TapedeckError('overloaded', 'too many exports are kept: delete some, or wait until they expire');
    const { clock, random, directory } = this.#options;
    const id = uuidV7(clock, random);
    const job: Job = {
      id, format, request, path: join(directory, id), created: clock.nowMicros(), stop: new AbortController(), state: 'waiting', rows: 0, isCounted: false, bytes: 0,
      sha256: null, beside: [], report: null, error: null, ended: null,
    };
    this.#jobs.set(id, job);
    this.#next();
    return statusOf(job);
  } // prettier-ignore

  list(project: string): ExportStatus[] {
    this.#expire();
    return [...this.#jobs.values()].filter((job) => job.request.project === project).map(statusOf);
  }

  status(project: string, id: string): ExportStatus {
    return statusOf(this.#find(project, id));
  }

  /** Where the whole file lies, or the named one beside it. Errors: `not_found`, `not_ready` while it is written. */
  file(project: string, id: string, beside?: string): ExportFile {
    const job = this.#find(project, id);
    if (job.state === 'waiting' || job.state === 'running') throw new TapedeckError('not_ready', 'the export is not written yet; its status says how far it is');
    if (job.state !== 'done') throw new TapedeckError('not_found', `the export has no file: it is ${job.state}`);
    const { bytes, sha256, fileName } = statusOf(job);
    if (beside === undefined) return { path: job.path, bytes, sha256, fileName, mediaType: job.format.mediaType };
    const found = job.beside.find(({ name }) => name === beside);
    if (found === undefined) throw new TapedeckError('not_found', `the export has no file ${JSON.stringify(beside)} beside it`);
    return { path: besidePath(job.path, found.name), bytes: found.bytes, sha256: found.sha256, fileName: found.name, mediaType: 'application/json' };
  } // prettier-ignore

  /** Ends the job and removes its file. */
  async remove(project: string, id: string): Promise<void> {
    const job = this.#find(project, id);
    job.stop.abort(new TapedeckError('aborted', 'the export was deleted'));
    this.#jobs.delete(id);
    await removeFiles(job);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#jobs.values()) job.stop.abort(new TapedeckError('closed', 'the server is closing'));
    await Promise.all(this.#running);
  }

  #find(project: string, id: string): Job {
    this.#expire();
    const job = this.#jobs.get(id);
    if (job === undefined || job.request.project !== project)
      throw new TapedeckError('not_found', `there is no export ${JSON.stringify(id.slice(0, 64))}`);
    return job;
  } // prettier-ignore

  #expire(): void {
    const { clock, keepMs } = this.#options;
    for (const job of this.#jobs.values()) {
      if (job.ended === null || clock.nowMicros() - job.ended < keepMs * 1_000) continue;
      this.#jobs.delete(job.id);
      void removeFiles(job).catch(() => {});
    }
  }

  #next(): void {
    for (const job of this.#jobs.values()) {
      if (this.#isClosed || this.#running.size >= this.#options.atOnce) return;
      if (job.state !== 'waiting') continue;
      job.state = 'running';
      const running = this.#run(job).finally(() => {
        this.#running.delete(running);
        this.#next();
      });
      this.#running.add(running);
    }
  }

  async #run(job: Job): Promise<void> {
    const { directory, clock } = this.#options;
    try {
      this.#made ??= rm(directory, { recursive: true, force: true }).then(() => mkdir(directory, { recursive: true }));
      await this.#made;
      await this.#write(job);
      job.state = 'done';
    } catch (error) {
      // whoever reads that it failed finds nothing of it
      await removeFiles(job).catch(() => {});
      job.state = job.stop.signal.aborted ? 'cancelled' : 'failed';
      job.error = isTapedeckError(error) ? { code: error.code, message: error.message } : { code: 'internal', message: error instanceof Error ? error.message : String(error) };
    }
    job.ended = clock.nowMicros();
  } // prettier-ignore

  async #write(job: Job): Promise<void> {
    const { maxBytes } = this.#options;
    const { signal } = job.stop;
    const hash = createHash('sha256');
    const file = await open(job.path, 'wx');
    try {
      job.report = await job.format.write(job.request, {
        write: async (bytes) => {
          signal.throwIfAborted();
          if (job.bytes + bytes.length > maxBytes) throw new TapedeckError('result_too_large', `an export has at most ${maxBytes} bytes: narrow it with filters`);
          hash.update(bytes);
          await file.writeFile(bytes);
          job.bytes += bytes.length;
        },
        count: (rows) => {
          job.isCounted = true;
          job.rows += rows;
        },
        beside: async (name, bytes) => {
          signal.throwIfAborted();
          await writeFile(besidePath(job.path, name), bytes, { flag: 'wx', flush: true });
          job.beside.push({ name, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') });
        },
      }, signal);
      signal.throwIfAborted();
      await file.sync();
    } finally {
      await file.close();
    }
    job.sha256 = hash.digest('hex');
  } // prettier-ignore
}

export type ExportFile = {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string | null;
  readonly fileName: string;
  readonly mediaType: string;
};

/** Names come from formats, never from a request. */
function besidePath(path: string, name: string): string {
  return `${path}.${name}`;
}

async function removeFiles(job: Job): Promise<void> {
  await rm(job.path, { force: true });
  for (const { name } of job.beside.splice(0)) await rm(besidePath(job.path, name), { force: true });
}

function statusOf(job: Job): ExportStatus {
  const { id, format, request, state, bytes, sha256, beside, report, error, created, ended } = job;
  const of = request.list.resource.name;
  return {
    id, project: request.project, format: format.name, of, state, rows: job.isCounted ? job.rows : null, bytes, sha256, beside: [...beside], report, error, created: String(created),
    ended: ended === null ? null : String(ended), fileName: `${of}-${id}.${format.extension}`,
  };
} // prettier-ignore
