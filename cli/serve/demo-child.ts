/**
 * The first-run demo (examples/learning/demo.ts): a process of its own that records and trains over HTTP, as any harness does, so that a new store has something to show. It decides
 * itself when it is over; nothing of the server depends on it.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import { isLoopback, paths, ROLES, type Config } from '../config.ts';

const PROGRAM = fileURLToPath(new URL('../../examples/learning/demo.ts', import.meta.url));
/** It ends within a second or two: the rollouts of a group, and what is not sent yet. */
const STOP_GRACE_MS = 10_000;

export type DemoChild = {
  /** Resolves when it has ended. Call it before the server closes, so that it can send what it has played. */
  close(): Promise<void>;
};

/** On a store where nothing was ever recorded, or where the demo was under way, of a server that somebody tries out. */
export function playsDemo(config: Config, server: { readonly isEmpty: boolean }): boolean {
  return config.demo && isTriedOut(config) && existsSync(PROGRAM) && (server.isEmpty || isUnderWay(standingOf(config)));
}

/** Everything on one machine and in one process, for nobody else: no API keys, no TLS. */
function isTriedOut(config: Config): boolean {
  const { log, clickhouseUrl, roles, host, tlsCert, requireKeys } = config;
  const isPrivate = isLoopback(host) && tlsCert === undefined && !requireKeys && !existsSync(paths(config).keys);
  return isPrivate && log === 'embedded' && clickhouseUrl === undefined && ROLES.every((role) => roles.includes(role));
}

function standingOf(config: Config): string {
  return join(paths(config).demo, 'standing.json');
}

function isUnderWay(path: string): boolean {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { done?: unknown }).done === false;
  } catch {
    return false;
  }
}

export function startDemo(config: Config, url: string, { clock, logger }: { readonly clock: Clock; readonly logger: Logger }): DemoChild {
  const child = fork(PROGRAM, [], { execArgv: ['--disable-warning=ExperimentalWarning'], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  child.on('message', ({ log }: { log: string }) => logger.info({ part: 'demo' }, log));
  const ended = endOf(child).then((code) => {
    if (code === 0) return;
    logger.warn({ part: 'demo' }, `the demo ended by ${code}; the server is not concerned`);
  });
  child.send({ url, standing: standingOf(config) }, () => {}); // what goes wrong is told by its end
  return {
    close: async () => {
      const gone = new AbortController();
      child.kill('SIGTERM');
      clock.sleep(STOP_GRACE_MS, gone.signal).then(() => child.kill('SIGKILL'), () => {}); // prettier-ignore
      await ended;
      gone.abort();
    },
  };
}

function endOf(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? code ?? 0));
  });
}
