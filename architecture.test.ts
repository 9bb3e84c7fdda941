import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { importsOf, violations } from './architecture.ts';

function repository(): Map<string, string> {
  const files = globSync('**/*.ts', { exclude: (name) => ['node_modules', 'data', '.cache', 'dist'].includes(name) });
  // the rules themselves quote what they forbid
  const judged = files.filter((file) => !/^architecture\.(test\.)?ts$/.test(file));
  return new Map(judged.map((file) => [file.replaceAll('\\', '/'), readFileSync(file, 'utf8')]));
}

function rulesBroken(files: Record<string, string>): string[] {
  return violations(new Map(Object.entries(files))).map((v) => v.rule);
}

test('the repository keeps its rules', () => {
  assert.deepEqual(violations(repository()), []);
});

test('finds imports of every form', () => {
  const source =
    "import a from './a.ts';\nimport type { B } from './b.ts';\nimport './c.ts';\nexport { d } from './d.ts';\nconst e = await import('./e.ts');\n// import x from './x.ts'\n";
  assert.deepEqual(importsOf(source), [
    { target: './a.ts', typeOnly: false },
    { target: './b.ts', typeOnly: true },
    { target: './c.ts', typeOnly: false },
    { target: './d.ts', typeOnly: false },
    { target: './e.ts', typeOnly: false },
  ]);
});

const broken: [string, Record<string, string>][] = [
  ['layers', { 'base/a.ts': "import '../events/b.ts'", 'events/b.ts': '' }],
  ['layers', { 'store/a.ts': "import type { B } from '../ingest/b.ts'", 'ingest/b.ts': '' }],
  ['lanes', { 'ingest/a.ts': "import '../query/b.ts'", 'query/b.ts': '' }],
  ['lanes', { 'query/a.ts': "import '../trainer-feed/b.ts'", 'trainer-feed/b.ts': '' }],
  ['layers', { 'shiny/a.ts': "import '../base/b.ts'", 'base/b.ts': '' }],
  ['packages', { 'base/a.ts': "import z from 'zod'" }],
  ['packages', { 'query/a.ts': "import { open } from 'lodash/fp'" }],
  ['single-home', { 'store/log/other.ts': "import { open } from 'lmdb'" }],
  ['no-cycle', { 'base/a.ts': "import './b.ts'", 'base/b.ts': "import './a.ts'" }],
  ['no-barrel', { 'base/index.ts': '' }],
  ['no-barrel', { 'base/all.ts': "export * from './a.ts'", 'base/a.ts': '' }],
  ['no-barrel', { 'base/all.ts': "export { a } from './a.ts'", 'base/a.ts': '' }],
  ['restricted', { 'store/a.ts': 'const t = Date.now();' }],
  ['restricted', { 'ingest/a.ts': 'const r = Math.random();' }],
  ['restricted', { 'store/a.ts': 'const both = AbortSignal.any([one, other]);' }],
  ['restricted', { 'cli/main.ts': 'const e = process.env.HOME;' }],
  ['resolves', { 'base/a.ts': "import './gone.ts'" }],
];

for (const [rule, files] of broken) {
  test(`breaking "${rule}" in ${Object.keys(files)[0] as string} is found`, () => {
    assert.ok(rulesBroken(files).includes(rule), `found only: ${rulesBroken(files).join(', ')}`);
  });
}

test('legal code passes: lower layers, types, tests with any package', () => {
  assert.deepEqual(
    rulesBroken({
      'base/a.ts': 'export const a = 1;',
      'events/b.ts': "import { z } from 'zod';\nimport { a } from '../base/a.ts';",
      'ingest/c.ts': "import { b } from '../events/b.ts';\nimport type { D } from '../store/d.ts';",
      'store/d.ts': "import type { C } from './e.ts';",
      'store/e.ts': "import type { D } from './d.ts';",
      'ingest/c.test.ts': "import fc from 'fast-check';\nconst now = Date.now();",
    }),
    [],
  );
});
