/** Starts the real server as a process of its own, as a user would, and lets a test kill it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export type TestServer = {
  readonly url: string;
  readonly pid: number;
  /** Resolves when it has ended, however. */
  readonly gone: Promise<number | null>;
  /** What it wrote so far (stdout and stderr). */
  output(): string;
  /** Waits until /readyz answers 200; throws with the output after `ms`. */
  ready(ms?: number): Promise<void>;
  /** SIGKILL to the server only, or to it and all its children. Resolves when it is gone. */
  kill(what?: 'server' | 'tree'): Promise<void>;
  /** SIGTERM, and SIGKILL after a grace time. Resolves with the exit code. */
  stop(): Promise<number | null>;
  /** Process ids of the children (engine, projector). */
  children(): number[];
};

export function temporaryFolder(name: string): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), `tapedeck-${name}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }) };
}

/** Starts `tapedeck serve`; `env` are TAPEDECK_ settings. The port is free unless given. */
export async function startServer(
  env: Readonly<Record<string, string>>,
  options: { readonly listenMs?: number } = {},
): Promise<TestServer> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../cli/main.ts'), 'serve'], {
    env: { ...cleanEnv(), TAPEDECK_PORT: '0', TAPEDECK_LOG_LEVEL: 'info', TAPEDECK_DEMO: 'false', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (d: Buffer) => (output += d.toString()));
  child.stderr.on('data', (d: Buffer) => (output += d.toString()));
  const gone = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  const end = Date.now() + (options.listenMs ?? 120_000);
  let url: string | undefined;
  while (url === undefined) {
    url = /listening on (https?:\/\/\S+)/.exec(output)?.[1];
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server ended before it listened:\n${output}`);
    if (Date.now() > end) {
      child.kill('SIGKILL');
      throw new Error(`the server did not listen in time:\n${output}`);
    }
    if (url === undefined) await sleep(20);
  }
  return testServer(child, url, gone, () => output);
}

function testServer(child: ChildProcess, url: string, gone: Promise<number | null>, output: () => string): TestServer {
  const pid = child.pid as number;
  return {
    url,
    pid,
    gone,
    output,
    ready: (ms = 180_000) => waitReady(url, ms, output),
    children: () => descendants(pid),
    kill: async (what = 'tree') => {
      const family = what === 'tree' ? descendants(pid) : [];
      child.kill('SIGKILL');
      for (const each of family) killQuietly(each);
      await gone;
      await Promise.all(family.map((each) => ended(each)));
    },
    stop: async () => {
      const family = descendants(pid);
      child.kill('SIGTERM');
      const code = await Promise.race([gone, sleep(20_000).then(() => 'late' as const)]);
      if (code === 'late') child.kill('SIGKILL');
      const final = await gone;
      for (const each of family) killQuietly(each);
      return final;
    },
  };
}

async function waitReady(url: string, ms: number, output: () => string): Promise<void> {
  const end = Date.now() + ms;
  let last = '';
  while (Date.now() < end) {
    try {
      const answer = await fetch(`${url}/readyz`);
      last = await answer.text();
      if (answer.ok) return;
    } catch (error) {
      last = String(error);
    }
    await sleep(50);
  }
  throw new Error(`not ready after ${ms} ms: ${last}\n${output()}`);
}

/** All descendants of a process, from /proc. */
export function descendants(pid: number): number[] {
  let direct: number[];
  try {
    direct = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return [];
  }
  return direct.flatMap((child) => [child, ...descendants(child)]);
}

function childRunning(server: TestServer, file: string): number {
  const pid = server.children().find((each) => commandOf(each).includes(file));
  if (pid === undefined) throw new Error(`no child runs ${file}:\n${server.output().slice(-2000)}`);
  return pid;
}

export function engineOf(server: TestServer): number {
  return childRunning(server, 'engine/main.ts');
}

export function projectorOf(server: TestServer): number {
  return childRunning(server, 'projector-process.ts');
}

export function isAlive(pid: number): boolean {
  return commandOf(pid) !== '';
}

/** Empty for a process that is gone or a zombie. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // gone already
  }
}

async function ended(pid: number): Promise<void> {
  for (let i = 0; i < 500; i++) {
    try {
      if (/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) return;
    } catch {
      return;
    }
    await sleep(10);
  }
}

/** The environment without the settings of whoever runs the tests. */
function cleanEnv(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TAPEDECK_')));
}
