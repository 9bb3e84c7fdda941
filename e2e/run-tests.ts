/**
 * Runs the test files by kind, each in a process of its own, prints what was skipped and why, and closes with "N passed, N failed, N skipped".
 *   unit    *.test.ts               in process, no server
 *   int     *.int.test.ts           real engine processes, nothing to install
 *   kafka   *.kafka.int.test.ts     a real broker: TAPEDECK_KAFKA_BROKERS, Docker, or Java and Maven
 *   python  *.python.int.test.ts    a Python with the packages the suite names
 * Usage: run-tests.ts [--kinds unit,int] [--only substring] [--concurrency n]
 * A kind named in TAPEDECK_REQUIRE (comma separated) must not skip: a skip there is a failure.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import type { TestEvent } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { notRunHint } from './not-run.ts';

const KINDS = ['unit', 'int', 'kafka', 'python'] as const;
type Kind = (typeof KINDS)[number];

const { values } = parseArgs({
  options: { kinds: { type: 'string', default: 'unit,int' }, only: { type: 'string' }, concurrency: { type: 'string', default: '2' } },
});
const wanted = new Set(values.kinds.split(','));
const required = new Set((process.env['TAPEDECK_REQUIRE'] ?? '').split(',').filter(Boolean));

function kindOf(file: string): Kind {
  if (file.endsWith('.kafka.int.test.ts')) return 'kafka';
  if (file.endsWith('.python.int.test.ts')) return 'python';
  return file.endsWith('.int.test.ts') ? 'int' : 'unit';
}

const all = globSync('**/*.test.ts', { exclude: (name) => name === 'node_modules' || name === 'data' }).toSorted();
const files = all.filter((f) => wanted.has(kindOf(f)) && (values.only === undefined || f.includes(values.only)));
const left = KINDS.filter((k) => !wanted.has(k) && all.some((f) => kindOf(f) === k));

let passed = 0;
let failed = 0;
const skipped: string[] = [];
const failures: string[] = [];

/** A contract suite reports under its own file: where one kind runs alone, its skips are of that kind. */
function isRequired(file: string): boolean {
  return required.has(wanted.size === 1 ? ([...wanted][0] as string) : kindOf(file));
}

function fileOf(data: { file?: string | undefined }): string {
  return (data.file ?? '').replace(`${process.cwd()}/`, '');
}

function scriptsOfPackage(): Record<string, string> {
  return (JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as { scripts: Record<string, string> }).scripts;
}

function onEvent(event: TestEvent): void {
  if (event.type === 'test:pass' || event.type === 'test:fail') {
    const { data } = event;
    const where = `${fileOf(data)} > ${data.name}`;
    if (data.details.type === 'suite') return;
    if (data.skip !== undefined) {
      const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason given';
      skipped.push(`${where}: ${reason}`);
      if (isRequired(fileOf(data))) failures.push(`${where}: skipped although required: ${reason}`);
    } else if (event.type === 'test:pass') {
      passed++;
      process.stdout.write(`ok    ${where} (${Math.round(data.details.duration_ms)} ms)\n`);
    } else if ((event.data.details.error as { failureType?: string }).failureType !== 'subtestsFailed') {
      failed++;
      const cause = event.data.details.error.cause;
      const text = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause ?? event.data.details.error.message);
      failures.push(`${where}\n${text}`);
      process.stdout.write(`FAIL  ${where}\n${text}\n`);
    }
  } else if (event.type === 'test:stderr' || event.type === 'test:stdout') {
    process.stderr.write(event.data.message);
  }
}

if (files.length === 0) {
  process.stdout.write('no test files match\n0 passed, 1 failed\n');
  process.exit(1);
}
for await (const event of run({
  files,
  concurrency: Number(values.concurrency),
  isolation: 'process',
  timeout: 600_000,
  execArgv: ['--disable-warning=ExperimentalWarning'],
})) {
  onEvent(event as TestEvent);
}
if (skipped.length > 0) process.stdout.write(`\nskipped:\n${skipped.map((s) => `  ${s}`).join('\n')}\n`);
if (left.length > 0) process.stdout.write(`not run here: ${notRunHint(left, scriptsOfPackage())}\n`);
if (failures.length > 0) process.stdout.write(`\nfailed:\n${failures.map((f) => `  ${f}`).join('\n')}\n`);
const failedCount = failed + failures.filter((f) => f.includes('skipped although required')).length;
process.stdout.write(`\n${passed} passed, ${failedCount} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}\n`);
process.exit(failedCount > 0 || passed === 0 ? 1 : 0);
