/**
 * The rules of ARCHITECTURE.md as a pure function over source texts: import order, lanes apart, npm packages per folder, no cycles, no barrels,
 * and the places where the clock, chance and the environment may be read. architecture.test.ts runs it over the repository.
 */
import { posix } from 'node:path';

/** Layers from the bottom up: a file may import from its own folder and from lower layers only. Folders of one layer never import each other. */
const LAYERS: readonly (readonly string[])[] = [
  ['base'],
  ['events'],
  ['store', 'migrations', 'harness-sdk', 'client'],
  ['ingest', 'query', 'trainer-feed'],
  ['cli', 'e2e', 'bench', 'examples'],
];
/** Folders of one layer that may see each other all the same, and why. */
const NEIGHBOURS: Readonly<Record<string, readonly string[]>> = {
  store: ['migrations'], // the schema of the column store
  migrations: ['store'], // migrate.ts speaks the ColumnStore port (types only)
  e2e: ['cli', 'bench', 'examples'], // whole-system tests run the examples
  bench: ['cli', 'e2e'],
};
/** npm packages each folder may use outside tests; a longer folder name wins. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  base: [],
  events: ['zod'],
  'store/log': ['lmdb', '@platformatic/kafka', 'kafkajs', 'zod'],
  'store/blobs': ['@aws-sdk/client-s3'],
  'store/keys': ['zod'],
  'store/columns': ['@clickhouse/client', 'zod'],
  'store/columns/engine': ['chdb', 'zod'],
  migrations: [],
  // openai: only when a program asks for a client of it; rolldown: build.ts
  'harness-sdk': ['openai', 'rolldown'],
  // openapi-fetch: the calls, typed by what client/api-types.ts says
  client: ['openapi-fetch'],
  'ingest/gateway/upstreams': ['undici', 'zod'],
  ingest: ['fastify', '@fastify/swagger', '@fastify/swagger-ui', 'prom-client', 'zod'],
  // cephes: the distributions behind intervals and tests
  query: ['fastify', 'zod', 'cephes'],
  'query/tokens': ['apache-arrow'],
  'trainer-feed': ['fastify', 'zod', 'apache-arrow'],
  cli: [
    'commander',
    'cli-progress',
    'fastify',
    '@fastify/cors',
    'pino',
    'pino-pretty',
    'prom-client',
    'zod',
    '@fastify/swagger',
    '@fastify/swagger-ui',
  ],
};
/** Each of these packages has one file that touches it, so that it can be replaced. */
const SINGLE_HOME: Readonly<Record<string, string>> = {
  lmdb: 'store/log/log-database.ts',
  '@platformatic/kafka': 'store/log/platformatic-client.ts',
  kafkajs: 'store/log/kafkajs-client.ts',
  cephes: 'query/analytics/statistics/special-functions.ts',
  '@aws-sdk/client-s3': 'store/blobs/s3-blobs.ts',
};
/** What may be read only in these files, by pattern. */
const RESTRICTED: readonly { readonly what: string; readonly pattern: RegExp; readonly homes: readonly string[] }[] = [
  { what: 'Date.now', pattern: /\bDate\.now\b|\bnew Date\(\)/, homes: ['base/clock.ts'] },
  { what: 'Math.random', pattern: /\bMath\.random\b/, homes: ['base/random.ts'] },
  { what: 'AbortSignal.any', pattern: /\bAbortSignal\.any\b/, homes: ['base/linked-signal.ts'] },
  { what: 'process.env', pattern: /\bprocess\.env\b/, homes: ['cli/config.ts'] },
];

export type Violation = { readonly rule: string; readonly file: string; readonly detail: string };
type Import = { readonly target: string; readonly typeOnly: boolean };

const IMPORT = /(?:^|\n)\s*(import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/g;

export function importsOf(source: string): Import[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
  return [...code.matchAll(IMPORT)].map((m) => ({ target: (m[3] ?? m[4]) as string, typeOnly: m[2] !== undefined }));
}

/** All violations in `files` (path relative to the root -> source). */
export function violations(files: ReadonlyMap<string, string>): Violation[] {
  const found: Violation[] = [];
  const edges = new Map<string, string[]>();
  for (const [file, source] of files) {
    const targets: string[] = [];
    for (const { target, typeOnly } of importsOf(source)) {
      if (target.startsWith('node:')) continue;
      if (!target.startsWith('.')) {
        found.push(...packageViolations(file, target));
        continue;
      }
      const to = posix.join(posix.dirname(file), target);
      if (!files.has(to)) found.push({ rule: 'resolves', file, detail: `imports ${to}, which does not exist` });
      found.push(...layerViolations(file, to));
      if (!typeOnly) targets.push(to);
    }
    edges.set(file, targets);
    found.push(...restrictedViolations(file, source), ...barrelViolations(file, source));
  }
  for (const cycle of cycles(edges)) found.push({ rule: 'no-cycle', file: cycle[0] as string, detail: cycle.join(' -> ') });
  return found;
}

function isTest(file: string): boolean {
  return /\.(test|bench|contract|arbitrary)\.ts$|(^|\/)(contract|conformance)\.ts$/.test(file) || /^(e2e|bench|examples)\//.test(file);
}

function packageViolations(file: string, target: string): Violation[] {
  if (isTest(file)) return [];
  const name = target.startsWith('@') ? target.split('/').slice(0, 2).join('/') : (target.split('/')[0] as string);
  const folder = Object.keys(PACKAGES)
    .filter((f) => file.startsWith(`${f}/`))
    .toSorted((a, b) => b.length - a.length)[0];
  const found: Violation[] = [];
  if (folder === undefined || !(PACKAGES[folder] as readonly string[]).includes(name)) {
    found.push({ rule: 'packages', file, detail: `${folder ?? 'the root'} may not use ${name}` });
  }
  const home = SINGLE_HOME[name];
  if (home !== undefined && file !== home) found.push({ rule: 'single-home', file, detail: `${name} belongs in ${home} only` });
  return found;
}

function layerViolations(file: string, to: string): Violation[] {
  const from = file.split('/')[0] as string;
  const target = to.split('/')[0] as string;
  if (from === target || !file.includes('/')) return [];
  const level = LAYERS.findIndex((l) => l.includes(from));
  const targetLevel = LAYERS.findIndex((l) => l.includes(target));
  if (level < 0 || targetLevel < 0) return [{ rule: 'layers', file, detail: `${level < 0 ? from : target} is not a known folder` }];
  if (targetLevel < level || NEIGHBOURS[from]?.includes(target)) return [];
  if (isTest(file) && (target === 'e2e' || target === 'bench')) return []; // test files may start brokers and share payloads
  return [{ rule: targetLevel === level ? 'lanes' : 'layers', file, detail: `${from} may not import ${target} (${to})` }];
}

function restrictedViolations(file: string, source: string): Violation[] {
  if (isTest(file)) return [];
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\/\/.*$/gm, '');
  return RESTRICTED.filter((r) => r.pattern.test(code) && !r.homes.includes(file)).map((r) => ({
    rule: 'restricted',
    file,
    detail: `${r.what} belongs in ${r.homes.join(', ')} only`,
  }));
}

function barrelViolations(file: string, source: string): Violation[] {
  const found: Violation[] = [];
  if (posix.basename(file) === 'index.ts' && file !== 'harness-sdk/index.ts')
    found.push({ rule: 'no-barrel', file, detail: 'no index.ts' });
  if (/(?:^|\n)\s*export\s+(?:type\s+)?(?:\*|\{[^}]*\})\s*(?:as \w+\s*)?from\s/.test(source) && file !== 'harness-sdk/index.ts') {
    found.push({ rule: 'no-barrel', file, detail: 're-exports another file' });
  }
  return found;
}

/** Cycles of value imports, each once. */
function cycles(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): void => {
    const at = path.indexOf(file);
    if (at >= 0) {
      found.push([...path.slice(at), file]);
      return;
    }
    if (done.has(file)) return;
    path.push(file);
    for (const next of edges.get(file) ?? []) visit(next);
    path.pop();
    done.add(file);
  };
  for (const file of edges.keys()) visit(file);
  return found;
}
