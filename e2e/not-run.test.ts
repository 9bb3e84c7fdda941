import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { notRunHint } from './not-run.ts';

const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as { scripts: Record<string, string> };

test('kinds without a script of their own are run by npm test', () => {
  assert.equal(notRunHint(['unit', 'int', 'python'], scripts), 'unit, int (npm test); python (npm run test:python)');
  assert.equal(notRunHint(['kafka', 'python'], scripts), 'kafka (npm run test:kafka); python (npm run test:python)');
  assert.equal(notRunHint(['int'], { ...scripts, 'test:int': 'x' }), 'int (npm run test:int)');
});

test('every script that a hint can name exists', () => {
  const hint = notRunHint(['unit', 'int', 'kafka', 'python'], scripts);
  const named = [...hint.matchAll(/\(npm (?:run )?([a-z:]+)\)/g)].map(([, name = '']) => name);
  assert.equal(named.length, 3);
  for (const name of named) assert.ok(name in scripts, name);
});
