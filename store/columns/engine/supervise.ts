import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import { withDeadline } from '../../../base/deadline.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import type { Random } from '../../../base/random.ts';
import { retry } from '../../../base/retry.ts';
import type { FromChild, StartMessage, ToChild } from './child-messages.ts';
import { threadsFor } from './child-messages.ts';

export type EngineState = 'starting' | 'up' | 'down';

/** The embedded engine: a process that owns the store of one directory. */
export type Engine = {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  state(): EngineState;
  pid(): number | null;
  close(): Promise<void>;
};

/** Fields for programs, a sentence for people: what pino's methods take. */
export type EngineLog = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

export type EngineOptions = {
  readonly dataDir: string;
  /** Where bodies of inserts wait, on the same machine (default `<dataDir>/spool`). */
  readonly tmpDir?: string;
  /** Priority of the engine process, 0 to 19; 10 keeps queries and merges from delaying an acknowledgement. */
  readonly nice: number;
  /** Statements with a result that may run at the same time; half as many again may write. */
  readonly slots: number;
  /** How long a client may leave a result unread before its query is given up (default 120 s). */
  readonly stallMs?: number;
  readonly log: EngineLog;
  readonly clock: Clock;
  readonly random: Random;
};

const USER = 'tapedeck';
const START_TIMEOUT_MS = 120_000;
const STALL_MS = 120_000;
/** What a block needed serves the next one: given back after 5 s (the default) a fifth of an insert's CPU went into the kernel's clearing of fresh pages. */
const KEEP_MEMORY = 'dirty_decay_ms:30000,muzzy_decay_ms:30000';
const STOP_TIMEOUT_MS = 10_000;
/** An engine whose parent was killed needs a moment to end and free its lock. */
const LOCK_ATTEMPTS_MS = 10_000;
const BACKOFF = { firstMs: 100, maxMs: 10_000 };
/** An engine that lived this long is healthy. Deaths that follow each other faster make the wait longer, after the third one. */
const HEALTHY_MS = 60_000;

/**
 * Starts the engine and resolves when it answers. It is started again, on the same port with the same password, whenever it dies, with back-off;
 * meanwhile `state()` is 'starting' or 'down' and its clients see refused connections (`store_unavailable`).
 * Rejects with `store_locked` when another process owns the directory, `store_unavailable` when the engine cannot start.
 */
export async function startEngine(options: EngineOptions): Promise<Engine> {
  const supervisor = new Supervisor(options);
  await supervisor.open();
  return supervisor;
}

class Supervisor implements Engine {
  readonly user = USER;
  readonly password: string;
  readonly #options: EngineOptions;
  readonly #stop = new AbortController();
  #port = 0;
  #state: EngineState = 'starting';
  #child: ChildProcess | null = null;
  #watching: Promise<void> = Promise.resolve();
  #closing: Promise<void> | null = null;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.password = Buffer.from(options.random.bytes(new Uint8Array(24))).toString('base64url');
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  state(): EngineState {
    return this.#state;
  }

  pid(): number | null {
    return this.#child?.pid ?? null;
  }

  async open(): Promise<void> {
    const { clock } = this.#options;
    const until = clock.monotonicMs() + LOCK_ATTEMPTS_MS;
    const isWorthWaiting = (error: unknown): boolean => isTapedeckError(error, 'store_locked') && clock.monotonicMs() < until;
    const child = await this.#retrying((error) => (isWorthWaiting(error) ? 'retry' : 'permanent'));
    this.#watching = this.#watch(child);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stop.abort(new TapedeckError('closed', 'the engine was closed'));
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exited = onceExited(child);
      if (child.connected) child.send({ kind: 'stop' } satisfies ToChild);
      await withDeadline(this.#options.clock, STOP_TIMEOUT_MS, 'the engine to end', () => exited).catch(() => {
        child.kill('SIGKILL');
        return exited;
      });
    }
    await this.#watching;
    this.#state = 'down';
  }

  /** Waits for each death and starts a successor, until closed. */
  async #watch(first: ChildProcess): Promise<void> {
    const { clock, log } = this.#options;
    let child = first;
    let quickDeaths = 0;
    try {
      for (;;) {
        const upSince = clock.monotonicMs();
        const death = await onceExited(child);
        this.#child = null;
        if (this.#stop.signal.aborted) return;
        this.#state = 'down';
        const livedMs = Math.round(clock.monotonicMs() - upSince);
        log.error({ ...death, livedMs }, 'the engine process died; starting it again');
        quickDeaths = livedMs < HEALTHY_MS ? quickDeaths + 1 : 0;
        await clock.sleep(Math.min(BACKOFF.firstMs * 2 ** Math.max(quickDeaths - 3, 0), BACKOFF.maxMs), this.#stop.signal);
        child = await this.#retrying(() => 'retry');
        log.info({ pid: child.pid }, 'the engine process is up again');
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) log.error({ error }, 'the engine process cannot be supervised any more');
    } finally {
      this.#state = 'down';
    }
  }

  async #retrying(classify: (error: unknown) => 'retry' | 'permanent'): Promise<ChildProcess> {
    const { clock, random, log } = this.#options;
    return retry(() => this.#start(), {
      clock,
      random,
      backoff: BACKOFF,
      classify: (error) => (this.#stop.signal.aborted ? 'permanent' : classify(error)),
      signal: this.#stop.signal,
      onRetry: (error, attempt, waitMs) =>
        log.warn({ attempt, waitMs, reason: (error as Error).message }, 'the engine process did not start'),
    });
  }

  async #start(): Promise<ChildProcess> {
    const options = this.#options;
    this.#state = 'starting';
    const child = fork(join(import.meta.dirname, 'main.ts'), [], {
      // A small environment of its own: nothing of ours leaks into it, and times are UTC.
      env: {
        PATH: '/usr/bin:/bin:/usr/local/bin',
        TZ: 'UTC',
        UV_THREADPOOL_SIZE: String(threadsFor(options.slots)),
        JE_MALLOC_CONF: KEEP_MEMORY,
      },
      execArgv: ['--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#child = child;
    child.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => options.log.warn({ stderr: text.slice(0, 2000) }, 'the engine process wrote to stderr'));
    try {
      const ready = await withDeadline(
        options.clock,
        START_TIMEOUT_MS,
        'the engine process to be ready',
        () => this.#handshake(child),
        this.#stop.signal,
      );
      this.#port = ready.port;
      this.#state = 'up';
      return child;
    } catch (error) {
      this.#state = 'down';
      child.kill('SIGKILL');
      throw error;
    }
  }

  #handshake(child: ChildProcess): Promise<FromChild & { kind: 'ready' }> {
    const { dataDir, tmpDir, nice, slots, stallMs } = this.#options;
    const message: StartMessage = {
      kind: 'start',
      dataDirectory: join(dataDir, 'store'),
      spoolDirectory: tmpDir ?? join(dataDir, 'spool'),
      port: this.#port,
      user: this.user,
      password: this.password,
      nice,
      slots,
      stallMs: stallMs ?? STALL_MS,
    };
    return new Promise((resolve, reject) => {
      child.once('error', (cause) => reject(new TapedeckError('store_unavailable', 'the engine process could not be started', { cause })));
      child.once('exit', (code, signal) =>
        reject(new TapedeckError('store_unavailable', `the engine process ended at its start (${signal ?? code})`)),
      );
      child.once('message', (answer: FromChild) => {
        if (answer.kind === 'ready') resolve(answer);
        else reject(startError(answer, dataDir));
      });
      child.send(message);
    });
  }
}

function startError(answer: FromChild & { kind: 'failed' }, dataDir: string): TapedeckError {
  if (answer.isLocked) {
    return new TapedeckError(
      'store_locked',
      `another process has opened the store in ${dataDir}: one process owns a data directory; stop the other one`,
      {
        details: { dataDir },
      },
    );
  }
  return new TapedeckError('store_unavailable', `the engine could not start: ${answer.message}`, {
    details: { isPortTaken: answer.isPortTaken },
  });
}

function onceExited(child: ChildProcess): Promise<{ code: number | null; signal: string | null }> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve({ code: child.exitCode, signal: child.signalCode });
  return new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
}
