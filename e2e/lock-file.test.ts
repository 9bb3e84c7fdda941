import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

interface Locked {
  version?: string;
  resolved?: string;
  optionalDependencies?: Record<string, string>;
}

const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')) as { packages: Record<string, Locked> };

test('the lock file names no registry', () => {
  assert.deepEqual(Object.keys(lock.packages).filter((path) => lock.packages[path]?.resolved !== undefined), []); // prettier-ignore
});

/** Where Node looks for a package that the one at `path` needs. */
function homesOf(path: string, name: string): string[] {
  const parts = path.split('/node_modules/');
  const above = parts.map((_, i) => `${parts.slice(0, i + 1).join('/node_modules/')}/node_modules/${name}`);
  return [...above, `node_modules/${name}`];
}

// `npm ci` refuses a lock file that lacks the packages of other platforms, which `npm install` leaves out when a registry does not carry them.
test('the lock file holds the packages of every platform, so that npm ci takes it', () => {
  for (const [path, { optionalDependencies = {} }] of Object.entries(lock.packages)) {
    for (const name of Object.keys(optionalDependencies)) {
      assert.ok(homesOf(path, name).some((home) => lock.packages[home]?.version !== undefined), `${path || 'package.json'}: ${name}`); // prettier-ignore
    }
  }
});
