/** Looks for sessions of dead processes in the spool folder, now and again, and delivers them one after another. */
import type { Clock } from '../../base/clock.ts';
import { listSessions, sweepAliveFiles, takeOver } from '../spool/sessions.ts';
import { bell } from './bell.ts';
import { drainSession, type DrainPorts } from './drain.ts';
import type { Drained } from './reports.ts';

export type LeftoverPorts = DrainPorts & {
  readonly folder: string;
  /** The session that holds its alive file: it becomes the owner of what it takes over. */
  readonly session: string;
  readonly clock: Clock;
  onDrained(drained: Drained): void;
  onFailure(error: unknown): void;
};
export type Leftovers = {
  /** What became of them so far. */
  readonly drained: readonly Drained[];
  /** Looks through the folder once more, soon. */
  look(): void;
  /** Gives up what is under way; what is not settled waits for the next process. */
  stop(): Promise<void>;
};

const LOOK_AGAIN_MS = 30_000;

/** Delivers every session that can be taken over; each is reported. */
export async function drainAll(ports: LeftoverPorts, signal: AbortSignal): Promise<Drained[]> {
  const all: Drained[] = [];
  for (const session of await listSessions(ports.folder)) {
    if (signal.aborted || !ports.isOwner()) break;
    const path = await takeOver(ports.folder, session, ports.session);
    const drained = path === null ? null : await drainSession(ports.folder, path, ports, signal);
    if (drained === null) continue;
    all.push(drained);
    ports.onDrained(drained);
  }
  await sweepAliveFiles(ports.folder);
  return all;
}

export function startLeftovers(ports: LeftoverPorts): Leftovers {
  const drained: Drained[] = [];
  const stopping = new AbortController();
  const again = bell(ports.clock);
  const onDrained = (each: Drained): void => {
    drained.push(each);
    ports.onDrained(each);
  };
  const running = (async () => {
    while (!stopping.signal.aborted && ports.isOwner()) {
      await drainAll({ ...ports, onDrained }, stopping.signal).catch((error: unknown) => ports.onFailure(error));
      if (!stopping.signal.aborted) await again.wait(LOOK_AGAIN_MS);
    }
  })();
  return {
    drained,
    look: () => again.ring(),
    stop: async () => {
      stopping.abort();
      again.ring();
      await running;
    },
  };
}
