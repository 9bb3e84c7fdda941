/**
 * A Python with PyTorch for the CPU. PyPI's wheel for Linux loads only beside gigabytes of CUDA libraries, the distribution's package does not, so its interpreter is tried
 * too (`apt-get install python3-torch`). TAPEDECK_TORCH_PYTHON names another.
 */
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { packageFolder } from './python-environment.ts';

const run = promisify(execFile);
const CACHE = join(dirname(fileURLToPath(import.meta.url)), '..', '.cache', 'python');

/** An interpreter that imports torch and numpy, and what to set PYTHONPATH to so that it finds the asked packages; or why none can be had (to skip with). */
export type TorchPython = { readonly python: string; readonly path: string } | { readonly missing: string };

/** `packages`: exact requirements beyond torch and numpy, installed from PyPI into a folder of their own, once per list; `unpack` ones without their dependencies. */
export async function findTorchPython(
  needs: { readonly packages?: readonly string[]; readonly unpack?: readonly string[] } = {},
): Promise<TorchPython> {
  const candidates = [process.env['TAPEDECK_TORCH_PYTHON'], process.env['TAPEDECK_PYTHON'], 'python3', '/usr/bin/python3'];
  for (const python of new Set(candidates.filter((c) => c !== undefined))) {
    if (!(await imports(python, 'torch, numpy'))) continue;
    try {
      return { python, path: await installed(python, needs.packages ?? [], needs.unpack ?? []) };
    } catch (error) {
      return {
        missing: `no ${[...(needs.packages ?? []), ...(needs.unpack ?? [])].join(' ')} for ${python}: ${String(error).split('\n').at(-1)}`,
      };
    }
  }
  return { missing: 'no Python with torch and numpy: apt-get install python3-torch, or name one in TAPEDECK_TORCH_PYTHON' };
}

async function imports(python: string, modules: string): Promise<boolean> {
  try {
    await run(python, ['-c', `import ${modules}`], { timeout: 300_000 });
    return true;
  } catch {
    return false;
  }
}

async function installed(python: string, packages: readonly string[], unpack: readonly string[]): Promise<string> {
  if (packages.length + unpack.length === 0) return '';
  return packageFolder({ python, maker: 'python3', cache: CACHE, packages, unpack });
}
