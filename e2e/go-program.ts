/** Programs in Go, for clients that only Go has. Modules and what was compiled are kept by Go itself. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const FETCH_TIMEOUT_MS = 240_000;
const BUILD_TIMEOUT_MS = 240_000;
const run = promisify(execFile);

export type GoProgram = { readonly path: string; remove(): Promise<void> };

/** Builds the program in `folder`, whose go.mod and go.sum say of what. Where there is no Go, or its modules cannot be had: why (to skip with). A program that does not compile throws. */
export async function goProgram(folder: string): Promise<GoProgram | { missing: string }> {
  // only what go.sum names, and no other toolchain than the one that is there
  const options = { cwd: folder, env: { ...process.env, GOFLAGS: '-mod=readonly', GOTOOLCHAIN: 'local' } };
  try {
    await run('go', ['version'], options);
  } catch {
    return { missing: 'go is not installed' };
  }
  try {
    await run('go', ['mod', 'download'], { ...options, timeout: FETCH_TIMEOUT_MS });
  } catch (error) {
    return { missing: `the Go modules cannot be had: ${(error as Error).message.split('\n').slice(0, 3).join(' ')}` };
  }
  const place = await mkdtemp(join(tmpdir(), 'tapedeck-go-'));
  const path = join(place, 'program');
  await run('go', ['build', '-o', path, '.'], { ...options, timeout: BUILD_TIMEOUT_MS });
  return { path, remove: () => rm(place, { recursive: true, force: true }) };
}
