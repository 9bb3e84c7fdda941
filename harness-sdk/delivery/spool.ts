/** The spool of one recorder: its session on disk, written in the background, and the alive file that says whose it is. The formats and rules are in ../spool. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import type { TapedeckError } from '../../base/errors.ts';
import { aliveFile, holdAlive } from '../spool/alive.ts';
import { segmentReader, type SpoolRead } from '../spool/segment-files.ts';
import { ownerOf } from '../spool/sessions.ts';
import { spoolError } from '../spool/spool-error.ts';
import { removeFolder, sessionWriter } from '../spool/session-writer.ts';
import type { SpoolLimits } from './limits.ts';
import type { MemoryWindow } from './memory-window.ts';
import type { BatchLimits } from './sender.ts';
import { spoolWriting } from './spool-writing.ts';
import { savedForm, type WireNumbers } from './wire-numbers.ts';

export type Spool = {
  /** Every number below is on disk or settled. */
  readonly written: number;
  readonly bytes: number;
  /** Why nothing could be written last time. */
  readonly failure: TapedeckError | null;
  /** Has what is in memory written within the delay. */
  schedule(): void;
  /** Writes all of it. Throws `disk_full`, `not_writable` or `overloaded`. */
  writeAll(): Promise<void>;
  writeAllSync(): void;
  /** Writes one event that is not in memory yet. */
  writeOneSync(seq: number, event: Uint8Array): void;
  read(from: number, limits: BatchLimits): Promise<SpoolRead>;
  settle(settled: number): void;
  saveNumbers(numbers: WireNumbers): void;
  rejectedFile(session: string): string;
  /** At exit, when everything is settled: as if it had never been. Does not throw. */
  removeSync(): void;
  /** `keep`: what is on disk is for the next process. */
  close(keep: boolean): Promise<void>;
};

export type SpoolPorts = {
  readonly limits: SpoolLimits;
  readonly session: string;
  readonly producer: string;
  readonly clock: Clock;
  readonly window: MemoryWindow;
  settledNow(): number;
  /** Called when something was written, or could not be. */
  onChange(): void;
  isOwner(): boolean;
};

/** Throws `not_writable` when the folder cannot be made. */
export function openSpool(ports: SpoolPorts): Spool {
  const { limits, session } = ports;
  try {
    mkdirSync(limits.folder, { recursive: true });
  } catch (error) {
    throw spoolError(error, 'be opened');
  }
  const folder = join(limits.folder, session);
  const alive = holdAlive(aliveFile(limits.folder, session));
  const writer = sessionWriter({ ...limits, folder, owner: ownerOf(ports.producer) });
  const writing = spoolWriting({ ...ports, writer, delayMs: limits.delayMs, ready: alive.ready });
  const reader = segmentReader();
  return {
    get written() {
      return writing.written;
    },
    get bytes() {
      return writer.bytes;
    },
    get failure() {
      return writing.failure;
    },
    schedule: () => writing.schedule(),
    writeAll: () => writing.writeAll(),
    writeAllSync: () => writing.writeAllSync(),
    writeOneSync: (seq, event) => writing.writeOneSync(seq, event),
    read: (from, batch) => reader.read(writer.filesFrom(from), from, batch),
    settle: (settled) => {
      writer.settle(settled);
      if (writer.used && settled > writing.marked) writing.schedule();
    },
    saveNumbers: (numbers) => {
      try {
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, 'numbers.json'), JSON.stringify(savedForm(numbers)));
      } catch (error) {
        writing.fail(error);
      }
    },
    rejectedFile: (of) => join(limits.folder, `rejected-${of}.jsonl`),
    removeSync: () => {
      try {
        removeFolder(folder);
        rmSync(aliveFile(limits.folder, session), { force: true });
      } catch {
        // whoever comes next finds nothing in it to deliver
      }
    },
    close: async (keep) => {
      await writing.stop();
      writer.close();
      if (!keep) removeFolder(folder);
      await alive.close();
    },
  };
}
