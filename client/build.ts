/**
 * Builds the published package `@tapedeck/client` into client/dist: a module and its declarations per file, package.json. It runs wherever there is a `fetch`.
 *
 *   npm run build:client [-- --out DIR]
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const { values } = parseArgs({ options: { out: { type: 'string', default: join(import.meta.dirname, 'dist') } } });
const out = resolve(values.out);

function compile(): void {
  const tsc = join(ROOT, 'node_modules/.bin/tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-p', join(import.meta.dirname, 'tsconfig.build.json'), '--outDir', out], { stdio: 'inherit' }); // prettier-ignore
  if (status !== 0) throw new Error('tsc failed');
  for (const file of globSync('*.d.ts', { cwd: out })) {
    const text = readFileSync(join(out, file), 'utf8'); // the compiler leaves the endings in declarations as they are
    writeFileSync(join(out, file), text.replaceAll(/(from '\.[^']*)\.ts'/g, "$1.js'"));
  }
}

function manifest(): void {
  const root = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string; license: string; devDependencies: Record<string, string> };
  const entry = (name: string): object => ({ types: `./${name}.d.ts`, default: `./${name}.js` });
  const written = {
    name: '@tapedeck/client',
    version: root.version,
    description: 'Typed client of the REST API of Tapedeck',
    license: root.license,
    type: 'module',
    sideEffects: false,
    exports: { '.': entry('tapedeck-client'), './list-rows': entry('list-rows'), './api-types': entry('api-types') },
    dependencies: { 'openapi-fetch': root.devDependencies['openapi-fetch'] },
  };
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(written, null, 2)}\n`);
} // prettier-ignore

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
compile();
manifest();
process.stdout.write(`@tapedeck/client in ${relative(process.cwd(), out) || '.'}\n`);
