/** Folders of Python packages, each made once: e2e/make_environment.py says how, and why two suites at once, or one that was killed, cannot spoil it. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MAKER = join(import.meta.dirname, 'make_environment.py');
/** Resolving many packages on a slow machine takes minutes; whoever waits for another process waits for two such. */
const WAIT_SECONDS = 1_500;

export interface Environment {
  /** The interpreter that makes it, and that a virtual environment is of. */
  readonly python: string;
  readonly cache: string;
  /** Exact requirements as pip reads them: `moto[server]==5.2.1`. */
  readonly packages: readonly string[];
  /** Modules that must import. */
  readonly imports: readonly string[];
}

/** The interpreter of a virtual environment with the packages. Throws what pip said last when there can be none. */
export async function virtualEnvironment({ python, cache, packages, imports }: Environment): Promise<string> {
  const { tag } = await interpreter(python);
  const folder = join(cache, nameOf([tag, packages]));
  await make(python, { kind: 'venv', folder, packages, unpack: [], imports });
  return join(folder, 'bin', 'python');
}

export interface PackageFolder {
  /** The interpreter that reads them. */
  readonly python: string;
  /** One that has pip. */
  readonly maker: string;
  readonly cache: string;
  readonly packages: readonly string[];
  /** Installed without their dependencies. */
  readonly unpack: readonly string[];
}

/** A folder for PYTHONPATH with the packages. Throws what pip said last when there can be none. */
export async function packageFolder({ python, maker, cache, packages, unpack }: PackageFolder): Promise<string> {
  const { tag, path } = await interpreter(python);
  const folder = join(cache, `target-${nameOf([tag, packages, unpack])}`);
  if (!existsSync(join(folder, 'made.json'))) await make(maker, { kind: 'target', folder, packages, unpack, imports: [], target: path });
  return folder;
}

async function make(python: string, ask: Readonly<Record<string, unknown>>): Promise<void> {
  try {
    await run(python, [MAKER, JSON.stringify({ ...ask, waitSeconds: WAIT_SECONDS })]);
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new Error(said.split('\n').at(-1) || String(error), { cause: error });
  }
}

/** What its packages are for, and where it lies: pip wants a path. */
async function interpreter(python: string): Promise<{ readonly tag: string; readonly path: string }> {
  const script = 'import sys; print(sys.implementation.cache_tag, sys.base_prefix); print(sys.executable)';
  const { stdout } = await run(python, ['-c', script], { timeout: 60_000 });
  const [tag, path] = stdout.trim().split('\n') as [string, string];
  return { tag, path };
}

function nameOf(parts: unknown): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}
