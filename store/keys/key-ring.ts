/**
 * The keys of a running server, as fresh as the file: its state is looked at twice a second (a look works over every kind of mount, a notification does not), so that a
 * key can be used or stops being one within a second. A file that is damaged or gone later never opens a server: damaged, the last good keys go on; gone, no key is one.
 */
import { stat } from 'node:fs/promises';
import type { Clock } from '../../base/clock.ts';
import type { KeyRecord } from './key-record.ts';
import { readKeysFile } from './keys-file.ts';
import type { KeyTable } from './verify.ts';

export type KeyRing = {
  /** Null: there never was a file of keys; the server is open. */
  keys(): KeyTable | null;
  close(): Promise<void>;
};

export type KeyRingOptions = {
  readonly file: string;
  readonly clock: Clock;
  /** Told when the file cannot be used, once per state of it. */
  readonly onProblem: (error: unknown) => void;
  readonly everyMs?: number;
};

const EVERY_MS = 500;

/** Reads the file once, then follows it. Throws `config_invalid` when it cannot be used at the start. */
export async function openKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const { file, clock, onProblem, everyMs = EVERY_MS } = options;
  const stop = new AbortController();
  let seen = await stateOf(file);
  let keys = tableOf(await readKeysFile(file));
  const look = async (): Promise<void> => {
    const state = await stateOf(file);
    if (state === seen) return;
    try {
      const read = tableOf(await readKeysFile(file));
      keys = read ?? (keys === null ? null : new Map());
    } catch (error) {
      onProblem(error);
    }
    seen = state; // read before the file was: a change in between is seen at the next look
  };
  const follow = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(everyMs, stop.signal);
      await look();
    }
  };
  const done = follow().catch((error: unknown) => {
    if (!stop.signal.aborted) onProblem(error);
  });
  return {
    keys: () => keys,
    close: async () => {
      stop.abort();
      await done;
    },
  };
}

function tableOf(records: readonly KeyRecord[] | null): KeyTable | null {
  return records === null ? null : new Map(records.map((record) => [record.id, record]));
}

/** Changes whenever the file does: a write moves another file to its place. */
async function stateOf(file: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}
