/**
 * A Python with the packages a suite needs: the machine's own when it has them, else a virtual environment under .cache/python, made once per list of packages.
 * TAPEDECK_PYTHON names another interpreter.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');

export interface PythonNeeds {
  /** Exact requirements as pip reads them: `moto[server]==5.2.1`. */
  readonly packages: readonly string[];
  /** Modules that must import. */
  readonly imports: readonly string[];
}

/** The path of an interpreter that has everything, or why none can be had (to skip with). */
export async function findPython(needs: PythonNeeds): Promise<{ python: string } | { missing: string }> {
  const own = process.env['TAPEDECK_PYTHON'] ?? 'python3';
  if (await has(own, needs)) return { python: own };
  const folder = join(ROOT, '.cache', 'python', createHash('sha256').update(needs.packages.join('\n')).digest('hex').slice(0, 16));
  const python = join(folder, 'bin', 'python');
  if (existsSync(python) && (await has(python, needs))) return { python };
  try {
    await makeEnvironment(own, folder, needs.packages);
  } catch (error) {
    return { missing: `no Python with ${needs.packages.join(' ')}: ${firstLine(error)}` };
  }
  return (await has(python, needs)) ? { python } : { missing: `installed ${needs.packages.join(' ')}, but they do not import` };
}

async function has(python: string, needs: PythonNeeds): Promise<boolean> {
  const exact = needs.packages.map((p) => p.replace(/\[.*?\]/, '').split('=='));
  const script = [
    'import sys, json, importlib, importlib.metadata as m',
    'needs = json.loads(sys.argv[1])',
    'ok = all(m.version(n) == v for n, v in needs["exact"])',
    'for name in needs["imports"]: importlib.import_module(name)',
    'sys.exit(0 if ok else 1)',
  ].join('\n');
  try {
    await run(python, ['-c', script, JSON.stringify({ exact, imports: needs.imports })], { timeout: 60_000 });
    return true;
  } catch {
    return false;
  }
}

/** Built aside and renamed, so that a half-made one is never used; two suites at once end with one of the two. */
async function makeEnvironment(python: string, folder: string, packages: readonly string[]): Promise<void> {
  const aside = `${folder}.${process.pid}`;
  await mkdir(dirname(folder), { recursive: true });
  try {
    await run(python, ['-m', 'venv', aside], { timeout: 120_000 });
    await install(join(aside, 'bin', 'python'), packages);
    await rm(folder, { recursive: true, force: true });
    await rename(aside, folder);
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

/** uv resolves in seconds what takes pip minutes; pip does it where uv cannot (a registry that only pip is configured for). */
async function install(python: string, packages: readonly string[]): Promise<void> {
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  try {
    await run(python, [...pip, 'uv==0.13.8'], { timeout: 240_000 });
    const certificates = process.env['PIP_CERT'];
    const env = { ...process.env, ...(certificates !== undefined && { SSL_CERT_FILE: certificates }) };
    await run(python, ['-m', 'uv', 'pip', 'install', '--quiet', '--python', python, ...packages], { timeout: 240_000, env });
  } catch {
    await run(python, [...pip, ...packages], { timeout: 480_000 });
  }
}

function firstLine(error: unknown): string {
  const text =
    error instanceof Error ? ('stderr' in error && String(error.stderr) !== '' ? String(error.stderr) : error.message) : String(error);
  return text.trim().split('\n').at(-1) ?? text;
}
