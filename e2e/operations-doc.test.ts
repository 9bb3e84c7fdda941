/** docs/operations.md names only settings, metrics, codes and commands that exist. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ERROR_CODES } from '../base/errors.ts';
import { describeSettings } from '../cli/config.ts';

const ROOT = join(import.meta.dirname, '..');
const page = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
const sourceOf = (pattern: string): string => globSync(pattern, { cwd: ROOT }).map((file) => readFileSync(join(ROOT, file), 'utf8')).join('\n'); // prettier-ignore

test('its settings exist', () => {
  const known = new Set(describeSettings().map((s) => s.variable));
  for (const [name] of page.matchAll(/TAPEDECK_[A-Z0-9_]*[A-Z0-9]/g)) assert.ok(known.has(name), name);
});

test('its metrics exist, and none is left out', () => {
  const source = sourceOf('{cli/serve,ingest/http}/*metrics.ts');
  const exported = [...source.matchAll(/name: '(tapedeck_[a-z_]+)'/g)].map((m) => m[1] ?? '');
  const gauges = [...source.matchAll(/gauge\('([a-z_]+)'/g)].map((m) => `tapedeck_projector_${m[1]}`);
  const named = new Set([...page.matchAll(/`(tapedeck_[a-z_]+)`/g)].map((m) => m[1] ?? ''));
  assert.deepEqual([...named].toSorted(), [...exported, ...gauges].toSorted());
});

test('its error codes exist', () => {
  const codes = [...page.matchAll(/`((?!tapedeck_)[a-z]+(?:_[a-z]+)+)`/g)].map((m) => m[1] ?? '');
  assert.ok(codes.length >= 12, String(codes));
  for (const code of codes) assert.ok(code in ERROR_CODES, code);
});

test('its commands exist', () => {
  const main = readFileSync(join(ROOT, 'cli/main.ts'), 'utf8');
  for (const [, command = ''] of page.matchAll(/tapedeck ([a-z][a-z-]+)/g)) assert.match(main, new RegExp(`^  '?${command}'?: \\{`, 'm'));
});
