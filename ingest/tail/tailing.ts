/** What all parts of a running tail share. */
import type { Clock } from '../../base/clock.ts';
import type { LaneOptions, Lanes } from '../importers/lanes.ts';
import type { JsonReader } from '../importers/read-json.ts';
import type { FileReport, ImportReport } from '../importers/report.ts';
import type { Place, Target } from './place.ts';
import type { Places } from './places.ts';
import { writeState } from './state-file.ts';
import type { FolderWatch } from './watch-folder.ts';

export type TailOptions = Omit<LaneOptions, 'onResult'> & {
  readonly root: string;
  readonly state: string;
  readonly target: Target;
  readonly clock: Clock;
  /** Takes what is there and ends. */
  readonly once: boolean;
  /** Between two sweeps, milliseconds. */
  readonly sweepMs: number;
  readonly maxLineBytes?: number;
  readonly onProgress?: (progress: TailProgress) => void;
  readonly onNote?: (text: string) => void;
};
export type TailProgress = { readonly files: number; readonly lines: number; readonly sent: number; readonly waiting: number };

/** A compressed file is read when it did not change for so long; a last line without its line feed is taken then, if it is whole. */
export const SETTLE_MS = 1_000;

export type Tailing = {
  readonly options: TailOptions;
  readonly report: ImportReport;
  readonly lanes: Lanes;
  readonly read: JsonReader;
  readonly places: Places;
  readonly folder: FolderWatch;
  readonly entries: Map<string, FileReport>;
  /** Runs whose start was sent, and those whose start is acknowledged. */
  readonly runs: Set<string>;
  readonly startedRuns: Set<string>;
  /** When rows without a metadata.json were seen first, by path: it may be written a moment later. */
  readonly firstSeen: Map<string, number>;
  /** Up to where no line feed was found, by path. */
  readonly scanned: Map<string, number>;
  /** Files that are looked at again a little later. */
  readonly later: Set<string>;
  readonly skipped: Set<string>;
  readonly mapping: { readonly project?: string | undefined; readonly run?: string | undefined };
  isChanged: boolean;
  cannotSave: boolean;
};

export type Step = { readonly place: Place | null; readonly bytes: number; readonly more: boolean };
export const IDLE: Step = { place: null, bytes: 0, more: false };

/** Writes the state. Only `strict` throws: later a full disk is told, and lines go on to the server; after a kill more of them would be sent again. */
export async function save(work: Tailing, how: { readonly strict: boolean } = { strict: false }): Promise<void> {
  const { options, places, startedRuns } = work;
  try {
    await writeState(options.state, { version: 1, target: options.target, runs: [...startedRuns], places: places.all() });
    work.isChanged = false;
    work.cannotSave = false;
  } catch (error) {
    if (how.strict) throw error;
    if (!work.cannotSave) options.onNote?.(error instanceof Error ? error.message : String(error));
    work.cannotSave = true;
  }
}

export function skip(path: string, reason: string, { skipped, report }: Tailing): void {
  if (skipped.has(path)) return;
  skipped.add(path);
  report.skipped.push({ path, reason });
}
