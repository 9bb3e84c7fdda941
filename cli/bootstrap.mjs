// Runs a TypeScript entry point with the pinned Node, installing the locked dependencies first when they are missing or out of date.
// Plain JavaScript without dependencies, so that it works in a fresh clone and on an older Node.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const pinned = join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** npm writes node_modules/.package-lock.json when it has installed: older than the lock file means the lock file has changed since. */
function installed() {
  try {
    const done = statSync(join(root, 'node_modules', '.package-lock.json')).mtimeMs;
    return existsSync(pinned) && done >= statSync(join(root, 'package-lock.json')).mtimeMs;
  } catch {
    return false;
  }
}

/** Installs from the lock file when needed. */
export function ensureInstalled() {
  if (installed()) return;
  console.error('installing dependencies (once) ...');
  const options = { cwd: root, stdio: ['ignore', 2, 2], shell: process.platform === 'win32' };
  const done = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], options);
  if (done.status !== 0) process.exit(done.status ?? 1);
}

/** Runs `args` with the pinned Node in the caller's folder, hands signals on, and exits as it exits. */
export function runPinned(args) {
  const child = spawn(pinned, ['--disable-warning=ExperimentalWarning', ...args], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    console.error(String(error));
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal ? 128 + ({ SIGINT: 2, SIGTERM: 15, SIGKILL: 9 }[signal] ?? 1) : (code ?? 1)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  ensureInstalled();
  const [entry, ...rest] = process.argv.slice(2);
  runPinned([join(root, entry), ...rest]);
}
