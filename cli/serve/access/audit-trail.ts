/**
 * Who did what: `<data>/audit.log`, one JSON object a line, for its owner only. Not events of the log: those belong to projects and can be read by them, their list is closed,
 * and a server that may not write to the log (or cannot, as it is away) must still say who asked.
 *
 * An admin action is written before it is carried out, and is refused when it cannot be written. Uses and refusals of keys are counted and written every few seconds, one line
 * for each key, route and status, so that the trail costs nothing per request and nobody can fill the disk with it. Never holds keys, queries, bodies or parameters.
 */
import { appendFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';

export type Use = {
  /** Id of the key; null when there was none that is known. */
  readonly key: string | null;
  readonly method: string;
  /** The pattern of the route, not the path: ids may be private. */
  readonly route: string;
  readonly status: number;
  readonly address: string;
};

export type AuditTrail = {
  used(use: Use): void;
  /** Resolves when the line is in the file. Throws `not_writable`. */
  admin(action: Omit<Use, 'status'> & { readonly project: string }): Promise<void>;
  close(): Promise<void>;
};

export type AuditOptions = { readonly file: string; readonly clock: Clock; readonly onProblem: (error: unknown) => void };

const FLUSH_MS = 5_000;
const MANY = 10_000;
const FILE_BYTES = 64 * 1024 * 1024;
const OLD_FILES = 9;

export function openAuditTrail({ file, clock, onProblem }: AuditOptions): AuditTrail {
  const counts = new Map<string, { readonly use: Use; readonly first: number; last: number; count: number }>();
  const stop = new AbortController();
  let writing: Promise<void> = Promise.resolve();
  const write = (entries: readonly object[]): Promise<void> => {
    const text = entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
    const written = writing.then(async () => {
      await rotate(file, clock);
      await appendFile(file, text, { mode: 0o600 });
    });
    writing = written.catch(() => {});
    return written;
  };
  const flush = async (): Promise<void> => {
    if (counts.size === 0) return;
    const entries = [...counts.values()].map(({ use, first, last, count }) => {
      const event = use.key === null || use.status === 401 || use.status === 403 ? 'refused' : 'used';
      return { time: iso(last), event, ...use, count, first: iso(first) };
    });
    counts.clear();
    await write(entries).catch(onProblem);
  };
  const follow = (async () => {
    while (!stop.signal.aborted) {
      await clock.sleep(FLUSH_MS, stop.signal).catch(() => {});
      await flush();
    }
  })();
  return {
    used: (use) => {
      const name = JSON.stringify(Object.values(use));
      const now = clock.nowMicros();
      const known = counts.get(name);
      if (known !== undefined) {
        known.count++;
        known.last = now;
      } else if (counts.size < MANY) counts.set(name, { use, first: now, last: now, count: 1 });
    },
    admin: async ({ key, project, method, route, address }) => {
      const entry = { time: iso(clock.nowMicros()), event: 'admin', key, project, method, route, address };
      await write([entry]).catch((cause: unknown) => {
        throw new TapedeckError('not_writable', `the action was not carried out, since the audit trail ${file} cannot be written`, {
          cause,
        });
      });
    },
    close: async () => {
      stop.abort();
      await follow;
      await writing;
    },
  };
}

/** One line, for commands that change keys. */
export async function appendAudit(file: string, clock: Clock, entry: Readonly<Record<string, unknown>>): Promise<void> {
  await appendFile(file, `${JSON.stringify({ time: iso(clock.nowMicros()), ...entry })}\n`, { mode: 0o600 });
}

/** A file that has grown large is put aside under the time; the oldest of many go. */
async function rotate(file: string, clock: Clock): Promise<void> {
  const size = await stat(file).then((s) => s.size, () => 0); // prettier-ignore
  if (size < FILE_BYTES) return;
  await rename(file, `${file}.${iso(clock.nowMicros()).replaceAll(':', '-')}`).catch(() => {});
  const folder = dirname(file);
  const old = (await readdir(folder)).filter((name) => name.startsWith(`${basename(file)}.`)).toSorted();
  for (const name of old.slice(0, -OLD_FILES)) await rm(join(folder, name), { force: true });
}

function iso(micros: number): string {
  return new Date(Math.floor(micros / 1000)).toISOString();
}
