/**
 * A Python with the packages a suite needs: the machine's own when it has them, else a virtual environment under .cache/python, made once per list of packages.
 * TAPEDECK_PYTHON names another interpreter.
 */
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { virtualEnvironment } from './python-environment.ts';

const run = promisify(execFile);
const CACHE = join(dirname(fileURLToPath(import.meta.url)), '..', '.cache', 'python');

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
  try {
    return { python: await virtualEnvironment({ python: own, cache: CACHE, ...needs }) };
  } catch (error) {
    return { missing: `no Python with ${needs.packages.join(' ')}: ${error instanceof Error ? error.message : String(error)}` };
  }
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
