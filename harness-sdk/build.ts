/**
 * Builds the published package `@tapedeck/harness` into harness-sdk/dist: one ESM file that runs on Node 20, the declarations it needs, package.json, README.
 *
 *   npm run build:sdk [-- --out DIR]
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { rolldown } from 'rolldown';

const ROOT = join(import.meta.dirname, '..');
const { values } = parseArgs({ options: { out: { type: 'string', default: join(import.meta.dirname, 'dist') } } });
const out = resolve(values.out);

/** Node 20 has no `Promise.withResolvers`; where the code of other folders says it, the bundle says ours. */
const WITH_RESOLVERS = { 'Promise.withResolvers': 'harnessWithResolvers' };

async function bundle(): Promise<void> {
  const build = await rolldown({
    input: join(import.meta.dirname, 'index.ts'),
    platform: 'node',
    tsconfig: join(ROOT, 'tsconfig.json'),
    external: [/^node:/, 'openai'],
    transform: { target: 'node20', define: WITH_RESOLVERS, inject: { harnessWithResolvers: [join(import.meta.dirname, 'with-resolvers.ts'), 'withResolvers'] } }, // prettier-ignore
  });
  await build.write({ file: join(out, 'index.js'), format: 'esm' });
  await build.close();
}

/** Declarations of everything that index.ts reaches, and no more: what lies behind the public face would name libraries that are not in the package. */
function declarations(): void {
  const made = join(ROOT, '.cache/harness-sdk-types');
  rmSync(made, { recursive: true, force: true });
  const tsc = spawnSync(process.execPath, [join(ROOT, 'node_modules/.bin/tsc'), '-p', join(import.meta.dirname, 'tsconfig.build.json')], {
    stdio: 'inherit',
  });
  if (tsc.status !== 0) throw new Error('tsc failed');
  const todo = ['harness-sdk/index.d.ts'];
  const done = new Set<string>();
  for (let file = todo.pop(); file !== undefined; file = todo.pop()) {
    if (done.has(file)) continue;
    done.add(file);
    const text = readFileSync(join(made, file), 'utf8');
    for (const [, target] of text.matchAll(/from '([^']+)'/g)) {
      if ((target as string).startsWith('.')) todo.push(posix.join(posix.dirname(file), (target as string).replace(/\.ts$/, '.d.ts')));
    }
    mkdirSync(join(out, 'types', dirname(file)), { recursive: true });
    writeFileSync(join(out, 'types', file), text.replaceAll(/(from '\.[^']*)\.ts'/g, "$1.js'"));
  }
}

function manifest(): void {
  const { version, license } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string; license: string };
  const manifest = {
    name: '@tapedeck/harness',
    version,
    description: 'Records rollouts of language-model agents into Tapedeck, durably',
    license,
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20' },
    exports: { '.': { types: './types/harness-sdk/index.d.ts', default: './index.js' } },
    files: ['index.js', 'types'],
    peerDependencies: { openai: '>=5' },
    peerDependenciesMeta: { openai: { optional: true } },
  };
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  cpSync(join(import.meta.dirname, 'README.md'), join(out, 'README.md'));
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await bundle();
declarations();
manifest();
const size = readFileSync(join(out, 'index.js')).length;
process.stdout.write(`@tapedeck/harness in ${relative(process.cwd(), out) || '.'}: index.js ${Math.round(size / 1000)} kB\n`);
