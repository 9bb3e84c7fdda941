/**
 * Runs the test files by kind, each in a process of its own, prints what was skipped and why, and closes with "N passed, N failed, N skipped".
 *   unit    *.test.ts               in process, no server
 *   int     *.int.test.ts           real engine processes, nothing to install
 *   kafka   *.kafka.int.test.ts     a real broker: TAPEDECK_KAFKA_BROKERS, Docker, or Java and Maven
 *   python  *.python.int.test.ts    a Python with the packages the suite names
 * Usage: run-tests.ts [--kinds unit,int] [--only substring] [--concurrency n] [--again n]
 * With --again, at most n failed files run once more, alone, when the others have ended; what passes then is listed as unstable: it is a fault, but not this change's.
 * A kind named in TAPEDECK_REQUIRE (comma separated) must not skip: a skip there is a failure.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import type { TestEvent } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { notRunHint } from './not-run.ts';
import { failedFiles, tallyOf, withSecondRun, type Tally } from './test-tally.ts';

const KINDS = ['unit', 'int', 'kafka', 'python'] as const;
type Kind = (typeof KINDS)[number];

const { values } = parseArgs({
  options: {
    kinds: { type: 'string', default: 'unit,int' },
    only: { type: 'string' },
    concurrency: { type: 'string', default: '2' },
    again: { type: 'string', default: '0' },
  },
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

function onEvent(event: TestEvent, tally: Tally): void {
  if (event.type === 'test:pass' || event.type === 'test:fail') {
    const { data } = event;
    const file = fileOf(data);
    const where = `${file} > ${data.name}`;
    if (data.details.type === 'suite') return;
    const its = tallyOf(tally, file);
    if (data.skip !== undefined) {
      const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason given';
      its.skipped.push(`${where}: ${reason}`);
      if (isRequired(file)) its.failed.push(`${where}: skipped although required: ${reason}`);
    } else if (event.type === 'test:pass') {
      its.passed++;
      process.stdout.write(`ok    ${where} (${Math.round(data.details.duration_ms)} ms)\n`);
    } else if ((event.data.details.error as { failureType?: string }).failureType !== 'subtestsFailed') {
      const cause = event.data.details.error.cause;
      const text = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause ?? event.data.details.error.message);
      its.failed.push(`${where}\n${text}`);
      process.stdout.write(`FAIL  ${where}\n${text}\n`);
    }
  } else if (event.type === 'test:stderr' || event.type === 'test:stdout') {
    process.stderr.write(event.data.message);
  }
}

async function runFiles(names: readonly string[], concurrency: number): Promise<Tally> {
  const tally: Tally = new Map();
  const events = run({
    files: [...names],
    concurrency,
    isolation: 'process',
    timeout: 600_000,
    execArgv: ['--disable-warning=ExperimentalWarning'],
  });
  for await (const event of events) onEvent(event as TestEvent, tally);
  return tally;
}

function list(title: string, items: readonly string[]): void {
  if (items.length > 0) process.stdout.write(`\n${title}:\n${items.map((item) => `  ${item}`).join('\n')}\n`);
}

if (files.length === 0) {
  process.stdout.write('no test files match\n0 passed, 1 failed\n');
  process.exit(1);
}
let tally = await runFiles(files, Number(values.concurrency));
const again = failedFiles(tally);
if (again.length > 0 && again.length <= Number(values.again)) {
  process.stdout.write(`\nonce more, alone: ${again.join(', ')}\n`);
  const both = withSecondRun(tally, await runFiles(again, 1));
  tally = both.tally;
  list('unstable', both.unstable);
}
const outcomes = [...tally.values()];
const passed = outcomes.reduce((sum, its) => sum + its.passed, 0);
const failures = outcomes.flatMap((its) => its.failed);
const skipped = outcomes.flatMap((its) => its.skipped);
list('skipped', skipped);
if (left.length > 0) process.stdout.write(`not run here: ${notRunHint(left, scriptsOfPackage())}\n`);
list('failed', failures);
process.stdout.write(`\n${passed} passed, ${failures.length} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}\n`);
process.exit(failures.length > 0 || passed === 0 ? 1 : 0);
