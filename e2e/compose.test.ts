/** docker-compose.yml, Dockerfile, .dockerignore and .env.example, held against the compose schema, the settings and the rules of docs/operations.md. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { ENGINE_CONFIG } from '../store/columns/engine/engine-config.ts';
import { describeSettings, readConfig, ROLES } from '../cli/config.ts';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Service {
  image: string;
  command?: string[];
  environment?: Record<string, string | number>;
  ports?: string[];
  network_mode?: string;
  restart?: string;
  read_only?: boolean;
  cap_drop?: string[];
  volumes?: string[];
  healthcheck?: { test: string[] };
  deploy?: { resources: { limits: { cpus?: string; memory?: string } } };
  depends_on?: Record<string, { condition: string }>;
}
interface Compose {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
  configs: { edge: { content: string }; clickhouse: { content: string } };
}

const TEXT = read('docker-compose.yml');
const load = (text: string): Compose => parse(text, { merge: true }) as Compose;
const compose = load(TEXT);
const services = Object.entries(compose.services);
const roles = services.filter(([, s]) => s.image.startsWith('tapedeck:'));
const settings = describeSettings();

// dclint carries the schema of the compose specification.
const schema = JSON.parse(read('node_modules/dclint/schemas/compose.schema.json')) as Record<string, unknown>;
delete schema['$schema'];
const formats = { ports: true, expose: true, duration: true, subnet_ip_address: true } as const;
const fitsSchema = new Ajv({ strict: false, allowUnionTypes: true, formats }).compile(schema);

/** Variables named in `${...}`, with what follows the name: `:?message`, `:-default` or nothing. */
function interpolations(text: string): { name: string; rest: string }[] {
  return [...text.matchAll(/(?<!\$)\$\{([A-Za-z0-9_]+)([^}]*)\}/g)].map(([, name = '', rest = '']) => ({ name, rest }));
}

/** What compose makes of a text, for the forms we use. */
function interpolate(text: string, env: Record<string, string>): string {
  return text.replaceAll(/\$\$|\$\{([A-Za-z0-9_]+)(?::([-?])([^}]*))?\}/g, (all, name: string, kind: string, rest: string) => {
    if (all === '$$') return '$';
    const value = env[name] ?? '';
    if (value === '' && kind === '?') throw new Error(rest);
    return value === '' && kind === '-' ? rest : value;
  });
}

const GIVEN = { TAPEDECK_CLICKHOUSE_USER: 'somebody', TAPEDECK_CLICKHOUSE_PASSWORD: 'a: "strange" $password' };
const environmentOf = (service: Service, given: Record<string, string> = GIVEN): Record<string, string> =>
  Object.fromEntries(Object.entries(service.environment ?? {}).map(([name, value]) => [name, interpolate(String(value), given)]));

test('the compose file fits the compose schema', () => {
  assert.ok(fitsSchema(compose), JSON.stringify(fitsSchema.errors, null, 2));
  const broken = load(TEXT);
  Object.assign(broken.services['kafka'] as Service, { restart_policy: 'always' });
  assert.equal(fitsSchema(broken), false, 'the schema refuses what it does not know');
});

test('every service is watched, limited and restarted, from a pinned image', () => {
  for (const [name, service] of services) {
    assert.ok((service.healthcheck?.test.length ?? 0) >= 2, `${name}: healthcheck`);
    assert.equal(service.restart, 'unless-stopped', `${name}: restart`);
    const limits = service.deploy?.resources.limits;
    assert.match(limits?.memory ?? '', /^\d+[mg]$/, `${name}: memory limit`);
    // Docker refuses a limit above the number of cores there are.
    assert.ok(Number(limits?.cpus) > 0 && Number(limits?.cpus) <= 2, `${name}: cpu limit`);
    assert.match(service.image, /:\d+\.\d+/, `${name}: pinned image`);
  }
});

test('there is one service for each role, and the settings accept its environment', () => {
  assert.deepEqual(roles.map(([name]) => name).toSorted(), ROLES.toSorted());
  for (const [name, service] of roles) {
    assert.deepEqual(service.command, ['serve', '--roles', name]);
    const config = readConfig(environmentOf(service));
    assert.equal(config.log, 'kafka');
    assert.equal(config.clickhousePassword, GIVEN.TAPEDECK_CLICKHOUSE_PASSWORD);
    assert.equal(config.clickhouseUrl, 'http://clickhouse:8123');
    assert.equal(config.blobs, 'directory');
    assert.equal(service.read_only, true, `${name}: read-only root`);
    assert.deepEqual(service.cap_drop, ['ALL'], `${name}: no capabilities`);
    assert.deepEqual(service.volumes, [`tapedeck:${config.data}`]);
    assert.ok(service.healthcheck?.test.join(' ').includes('/readyz'));
  }
  const environments = roles.map(([, s]) => ({ ...s.environment, TAPEDECK_PORT: null }));
  for (const environment of environments) assert.deepEqual(environment, environments[0], 'roles differ in their port only');
});

test('blobs can go to S3 by settings alone', () => {
  const given = { ...GIVEN, TAPEDECK_BLOBS: 's3', TAPEDECK_S3_BUCKET: 'b', TAPEDECK_S3_ENDPOINT: 'http://store:9000' };
  const config = readConfig(environmentOf(compose.services['ingest'] as Service, given));
  assert.equal(config.blobs, 's3');
  assert.equal(config.s3Endpoint, 'http://store:9000');
  assert.equal(config.s3AccessKey, undefined);
});

test('variables that are used exist, and .env.example lists exactly those that can be given', () => {
  const known = new Set(settings.map((s) => s.variable));
  const used = [...new Set(interpolations(TEXT).map((i) => i.name))];
  const set = roles.flatMap(([, s]) => Object.keys(s.environment ?? {}));
  for (const name of [...used, ...set]) assert.ok(known.has(name), `${name} is no setting`);
  const listed = [...read('.env.example').matchAll(/^([A-Z0-9_]+)=/gm)].map((m) => m[1] ?? '');
  assert.deepEqual(listed.toSorted(), used.toSorted());
});

test('no secret has a value here: it is required, or empty unless given', () => {
  const secrets = new Set(settings.filter((s) => s.secret).map((s) => s.variable));
  for (const { name, rest } of interpolations(TEXT)) {
    if (secrets.has(name)) assert.match(rest, /^:(\?.+|-)$/, name);
  }
  for (const [name, service] of services) {
    for (const [variable, value] of Object.entries(service.environment ?? {})) {
      if (/PASSWORD|SECRET|ACCESS_KEY|TOKEN/.test(variable))
        assert.match(String(value), /^\$\{[A-Z0-9_]+:[?-][^}]*\}$/, `${name}: ${variable}`);
    }
  }
  for (const required of ['TAPEDECK_CLICKHOUSE_USER', 'TAPEDECK_CLICKHOUSE_PASSWORD']) {
    const given = { ...GIVEN, [required]: '' };
    for (const [name, service] of [...roles, ['clickhouse', compose.services['clickhouse'] as Service] as const]) {
      assert.throws(() => environmentOf(service, given), new RegExp(required), `${name} starts without ${required}`);
    }
  }
  assert.doesNotMatch(read('.env.example'), /^[^#\n]*=\S/m);
});

test('nothing is published beyond this machine, and roles listen on loopback ports of their own', () => {
  const published = services.flatMap(([name, s]) => (s.ports ?? []).map((port) => ({ name, port })));
  assert.deepEqual(published.map((p) => p.name), ['edge']); // prettier-ignore
  for (const { port } of published) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/);
  for (const [name, service] of roles) {
    assert.equal(service.network_mode, 'service:edge', name);
    assert.equal(readConfig(environmentOf(service)).host, '127.0.0.1', name);
  }
  const edge = compose.configs.edge.content;
  const listens = Number(/listen (\d+);/.exec(edge)?.[1]);
  assert.ok(published[0]?.port.endsWith(`:${listens}`));
  const ports = roles.map(([, s]) => Number(s.environment?.['TAPEDECK_PORT']));
  assert.equal(new Set([...ports, listens]).size, ROLES.length + 1, 'ports differ');
  for (const [name, service] of roles) {
    assert.ok(edge.includes(`upstream ${name} { server 127.0.0.1:${service.environment?.['TAPEDECK_PORT']};`), `edge knows ${name}`);
    assert.ok(edge.includes(`location /roles/${name}/ { proxy_pass http://${name}/; }`), `edge reaches ${name}`);
  }
  assert.deepEqual(interpolations(edge), []);
});

test('the broker keeps what it acknowledged', () => {
  const broker = compose.services['kafka']?.environment ?? {};
  const role = compose.services['ingest']?.environment ?? {};
  assert.equal(broker['KAFKA_AUTO_CREATE_TOPICS_ENABLE'], 'false');
  assert.equal(broker['KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE'], 'false');
  assert.equal(broker['KAFKA_LOG_RETENTION_MS'], -1);
  assert.equal(broker['KAFKA_LOG_RETENTION_BYTES'], -1);
  assert.equal(broker['KAFKA_DEFAULT_REPLICATION_FACTOR'], role['TAPEDECK_KAFKA_REPLICATION']);
  assert.equal(broker['KAFKA_MIN_INSYNC_REPLICAS'], role['TAPEDECK_KAFKA_MIN_ISR']);
  if (role['TAPEDECK_KAFKA_REPLICATION'] === 1) assert.equal(broker['KAFKA_LOG_FLUSH_INTERVAL_MESSAGES'], 1, 'one copy: on the disk first');
  assert.deepEqual(compose.services['kafka']?.volumes, [`kafka:${broker['KAFKA_LOG_DIRS']}`]);
  assert.ok(String(broker['KAFKA_ADVERTISED_LISTENERS']).endsWith(`//${role['TAPEDECK_KAFKA_BROKERS']}`));
});

test('the ClickHouse server lets Tapedeck make the users that queries run as', () => {
  assert.equal(readConfig(environmentOf(compose.services['query'] as Service)).clickhouseProjectUsers, true);
  assert.equal(compose.services['clickhouse']?.environment?.['CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT'], 1);
});

test('the ClickHouse server syncs what it stores, as the embedded engine does', () => {
  for (const setting of ['<fsync_after_insert>1<', '<fsync_part_directory>1<']) {
    assert.ok(ENGINE_CONFIG.includes(setting));
    assert.ok(compose.configs.clickhouse.content.includes(setting), setting);
  }
});

test('every volume is declared and used', () => {
  const used = services.flatMap(([, s]) => (s.volumes ?? []).map((v) => v.split(':')[0] ?? ''));
  assert.deepEqual([...new Set(used)].toSorted(), Object.keys(compose.volumes).toSorted());
});

test('the image: pinned Node, locked packages, two stages, no root', () => {
  const lines = read('Dockerfile').replaceAll(/\\\n\s*/g, '').split('\n').filter((line) => line !== '' && !line.startsWith('#')); // prettier-ignore
  const of = (word: string): string[] => lines.filter((line) => line.startsWith(`${word} `));
  const { devDependencies, engines } = JSON.parse(read('package.json')) as { devDependencies: { node: string }; engines: { node: string } };
  assert.ok(engines.node.startsWith('>='));
  assert.equal(of('FROM').length, 2);
  for (const from of of('FROM')) assert.ok(from.startsWith(`FROM node:${devDependencies.node}-`), `${from}: the Node of package.json`);
  assert.deepEqual(of('RUN').filter((line) => line.includes('npm')), ['RUN npm ci --omit=dev']); // prettier-ignore
  assert.equal(of('USER').at(-1), 'USER node');
  assert.ok(lines.indexOf('USER node') < lines.findIndex((line) => line.startsWith('ENTRYPOINT ')));
  assert.equal(of('ADD').length, 0);
  assert.ok(of('COPY').some((line) => line.startsWith('COPY --from=packages ')));
  assert.ok(of('HEALTHCHECK').length === 1);
  assert.doesNotMatch(of('ENV').join('\n') + of('ARG').join('\n'), /PASSWORD|SECRET|KEY|TOKEN/);
  const entry = JSON.parse(of('ENTRYPOINT')[0]?.slice('ENTRYPOINT '.length) ?? '') as string[];
  assert.equal(entry[0], 'node');
  assert.ok(existsSync(join(ROOT, entry[1] ?? '')), 'the entry point exists');
});

/** Files of the repository that `file` reaches by relative imports. */
function reachedFrom(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const [, target = ''] of read(file).matchAll(/(?:from|import|import\()\s*'(\.[^']+)'/g)) {
    reachedFrom(normalize(join(dirname(file), target)), seen);
  }
  return seen;
}

/** The entry points of the processes of a server. */
const ENTRIES = ['cli/main.ts', 'cli/projector-process.ts', 'store/columns/engine/main.ts'];

test('the image holds every package that the command imports', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  for (const file of ENTRIES.flatMap((entry) => [...reachedFrom(entry)])) {
    for (const [, packageName = ''] of read(file).matchAll(
      /^(?:import (?!type )[^'\n]*|\} from |.*\bimport\()'((?:@[^/']+\/)?[^./'][^/']*)/gm,
    )) {
      if (!packageName.startsWith('node:')) assert.ok(packageName in dependencies, `${file} imports ${packageName}`);
    }
  }
});

test('the image holds every file that the command reaches, and no more folders than it needs', () => {
  const rules = read('.dockerignore').split('\n').filter((line) => line !== '' && !line.startsWith('#')); // prettier-ignore
  assert.equal(rules[0], '*', 'everything is left out unless named');
  const named = rules.filter((r) => r.startsWith('!')).map((r) => r.slice(1));
  for (const name of named) assert.ok(existsSync(join(ROOT, name)), name);
  const left = rules.filter((r) => r.startsWith('**/')).map((r) => new RegExp(`(^|/)${r.slice(3).replaceAll('.', String.raw`\.`).replaceAll('*', '[^/]*')}(/|$)`)); // prettier-ignore
  for (const file of ENTRIES.flatMap((f) => [...reachedFrom(f)])) {
    assert.ok(named.includes(file.split('/')[0] ?? ''), `${file} is left out of the image`);
    assert.ok(!left.some((pattern) => pattern.test(file)), `${file} is left out of the image`);
  }
});
