/**
 * `npm run bench` lists the benchmarks, which are the `*.bench.ts` under the current folder; `npm run bench -- <names> [options]` runs those named, one after the
 * other, each in a process of its own. Options (the first argument that begins with `-`, and all after it) go to every benchmark named.
 */
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** The first sentence of a file's opening comment. */
function aboutOf(file: string): string {
  const comment = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
  const text = comment.replaceAll(/\s*\n \*\s?/g, ' ').trim();
  return /^.*?\.(?=\s|$)/.exec(text)?.[0] ?? text;
}

function list(benches: ReadonlyMap<string, string>): void {
  const width = Math.max(...[...benches.keys()].map((name) => name.length));
  for (const [name, file] of benches) console.log(`${name.padEnd(width)}  ${aboutOf(file)}`);
  console.log('\nrun some: npm run bench -- <name> … [their options]');
}

/** Inherits the terminal; true when the benchmark ended well. */
function run(file: string, options: readonly string[]): boolean {
  console.log(`\n== ${file}`);
  return spawnSync(process.execPath, [...process.execArgv, file, ...options], { stdio: 'inherit' }).status === 0;
}

const files = globSync('**/*.bench.ts', { exclude: (name) => name === 'node_modules' || name === 'data' }).toSorted();
const benches = new Map(files.map((file) => [basename(file, '.bench.ts'), file]));
const given = process.argv.slice(2);
const firstOption = given.findIndex((argument) => argument.startsWith('-'));
const names = firstOption < 0 ? given : given.slice(0, firstOption);
const unknown = names.filter((name) => !benches.has(name));
if (unknown.length > 0) {
  console.error(`there is no benchmark ${unknown.join(', ')}`);
  process.exitCode = 2;
} else if (names.length === 0) {
  list(benches);
} else {
  for (const name of names) if (!run(benches.get(name) as string, given.slice(names.length))) process.exitCode = 1;
}
