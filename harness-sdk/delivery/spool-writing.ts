/** Moves events from memory to the segments of a session: what comes next, one write at a time, marks, and trying again after a failure. */
import type { Clock } from '../../base/clock.ts';
import type { TapedeckError } from '../../base/errors.ts';
import type { SessionWriter } from '../spool/session-writer.ts';
import { spoolError } from '../spool/spool-error.ts';
import type { MemoryWindow } from './memory-window.ts';

export type SpoolWriting = {
  /** Every number below is on disk or settled. */
  readonly written: number;
  readonly failure: TapedeckError | null;
  /** Numbers below it are known on disk to be settled. */
  readonly marked: number;
  schedule(): void;
  writeAll(): Promise<void>;
  writeAllSync(): void;
  writeOneSync(seq: number, event: Uint8Array): void;
  fail(error: unknown): void;
  /** No more in the background; waits for the write under way. */
  stop(): Promise<void>;
};

export type SpoolWritingPorts = {
  readonly writer: SessionWriter;
  readonly window: MemoryWindow;
  readonly clock: Clock;
  readonly delayMs: number;
  /** What must have happened before anything is written. */
  readonly ready: Promise<void>;
  settledNow(): number;
  onChange(): void;
  isOwner(): boolean;
};

type State = {
  written: number;
  marked: number;
  failure: TapedeckError | null;
  isScheduled: boolean;
  isStopped: boolean;
  writing: Promise<void> | null;
};

const CHUNK_BYTES = 1024 * 1024;
const CHUNK_EVENTS = 4096;
const RETRY_MS = 1_000;

export function spoolWriting(ports: SpoolWritingPorts): SpoolWriting {
  const state: State = { written: 0, marked: 0, failure: null, isScheduled: false, isStopped: false, writing: null };
  const writeAll = async (): Promise<void> => {
    while (state.writing !== null) await state.writing.catch(() => {});
    state.writing = writeEverything(ports, state);
    await state.writing.finally(() => {
      state.writing = null;
    });
  };
  const schedule = (delayMs: number): void => {
    if (state.isScheduled || state.isStopped) return;
    state.isScheduled = true;
    void ports.clock.sleep(delayMs).then(async () => {
      state.isScheduled = false;
      if (state.isStopped || !ports.isOwner()) return;
      await writeAll().catch(() => schedule(Math.max(delayMs, RETRY_MS)));
    });
  };
  const now = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      throw failed(ports, state, error);
    }
  };
  return {
    get written() {
      return state.written;
    },
    get failure() {
      return state.failure;
    },
    get marked() {
      return state.marked;
    },
    schedule: () => schedule(ports.delayMs),
    writeAll,
    writeAllSync: () =>
      now(() => {
        for (let chunk = nextChunk(ports, state); chunk.events.length > 0; chunk = nextChunk(ports, state)) {
          ports.writer.appendSync(chunk.from, chunk.events, ports.settledNow());
          wrote(ports, state, chunk.from + chunk.events.length);
        }
      }),
    writeOneSync: (seq, event) =>
      now(() => {
        ports.writer.appendSync(seq, [event], ports.settledNow());
        wrote(ports, state, seq + 1);
      }),
    fail: (error) => void failed(ports, state, error),
    stop: async () => {
      state.isStopped = true;
      await state.writing?.catch(() => {});
    },
  };
}

function nextChunk(ports: SpoolWritingPorts, state: State): { from: number; events: Uint8Array[] } {
  const { window } = ports;
  const from = Math.max(state.written, ports.settledNow());
  const events: Uint8Array[] = [];
  for (let seq = from, bytes = 0; seq < window.end && bytes < CHUNK_BYTES && events.length < CHUNK_EVENTS; seq++) {
    const event = window.at(seq);
    events.push(event);
    bytes += event.length;
  }
  return { from, events };
}

async function writeEverything(ports: SpoolWritingPorts, state: State): Promise<void> {
  try {
    await ports.ready;
    for (let chunk = nextChunk(ports, state); chunk.events.length > 0; chunk = nextChunk(ports, state)) {
      const settled = ports.settledNow();
      await ports.writer.append(chunk.from, chunk.events, settled);
      state.marked = settled;
      wrote(ports, state, chunk.from + chunk.events.length);
    }
    await writeMark(ports, state);
    state.failure = null;
  } catch (error) {
    throw failed(ports, state, error);
  }
}

/** So that after a kill nothing is sent again that was settled. */
async function writeMark(ports: SpoolWritingPorts, state: State): Promise<void> {
  const { writer, window } = ports;
  const settled = ports.settledNow();
  if (!writer.used || settled <= state.marked || writer.filesFrom(state.marked).length === 0) return;
  await writer.append(window.end, [], settled);
  state.marked = settled;
}

function wrote(ports: SpoolWritingPorts, state: State, to: number): void {
  state.written = Math.max(state.written, to);
  state.failure = null;
  ports.onChange();
}

function failed(ports: SpoolWritingPorts, state: State, error: unknown): TapedeckError {
  state.failure = spoolError(error, 'be written');
  ports.onChange();
  return state.failure;
}
