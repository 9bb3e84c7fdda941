// Runs a TypeScript entry point with the pinned Node, installing the locked dependencies first when they are missing or out of date.
// Plain JavaScript without dependencies, so that it works in a fresh clone and on an older Node.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const stamp = join(root, 'node_modules', '.tapedeck-lock');
const pinned = join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

function installed() {
  try {
    return existsSync(pinned) && readFileSync(stamp, 'utf8') === readFileSync(join(root, 'package-lock.json'), 'utf8');
  } catch {
    return false;
  }
}

/** Installs from the lock file when needed; `npm ci` in CI and in a fresh clone. */
export function ensureInstalled() {
  if (installed()) return;
  if (!existsSync(pinned)) {
    console.error('installing dependencies (once) ...');
    const done = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
      cwd: root,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32',
    });
    if (done.status !== 0) process.exit(done.status ?? 1);
  }
  writeFileSync(stamp, readFileSync(join(root, 'package-lock.json'), 'utf8'));
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
