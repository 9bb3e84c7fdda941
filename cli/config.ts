/**
 * Every setting of Tapedeck: one typed object, read from the environment once, by entry points only, and passed down as plain data.
 * `tapedeck config` prints this table.
 */
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { TapedeckError } from '../base/errors.ts';

export const ROLES = ['ingest', 'projector', 'query', 'gateway', 'feed'] as const;
export type Role = (typeof ROLES)[number];

const MIB = 1024 * 1024;
const integer = (min: number, max: number) => z.coerce.number().int().min(min).max(max);
const flag = z.enum(['true', 'false']).transform((v) => v === 'true');
const list = z.string().transform((s) => s.split(',').map((x) => x.trim()).filter(Boolean)); // prettier-ignore

/** The variable of a setting is TAPEDECK_ and its name in capitals: blockWaitMs is TAPEDECK_BLOCK_WAIT_MS. */
const settings = z.object({
  data: z.string().min(1).prefault('./data').meta({ description: 'Folder for everything kept on this machine: log, tables, blobs.' }),
  host: z.string().prefault('127.0.0.1').meta({ description: 'Address to listen on; beyond loopback only with API keys.' }),
  port: integer(0, 65_535).prefault('7070').meta({ description: 'TCP port; 0 takes a free one.' }),
  roles: list
    .pipe(z.array(z.enum(ROLES)).min(1))
    .prefault(ROLES.join(','))
    .meta({ description: `What this process does: ${ROLES.join(', ')}.` }),
  logLevel: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .prefault('info')
    .meta({ description: 'How much it writes to stderr.' }),
  keys: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'File of API keys, shared by all roles; unset = keys.json in the data folder (docs/security.md).' }),
  requireKeys: flag.prefault('false').meta({ description: 'Refuse to start without API keys on loopback too, as behind a proxy.' }),
  key: z.string().optional().meta({ description: 'API key that commands send to the server.', secret: true }),
  project: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .meta({ description: 'Project that commands work on; unset = that of the key, or default.' }),
  keyRate: integer(0, 1_000_000).prefault('0').meta({ description: 'Requests a second for each API key; 0 = no limit.' }),
  openMetrics: flag.prefault('false').meta({ description: 'Answer /metrics without an API key.' }),
  tlsCert: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'File with the certificate chain (PEM); with TAPEDECK_TLS_KEY the server speaks HTTPS.' }),
  tlsKey: z.string().min(1).optional().meta({ description: 'File with the private key of the certificate (PEM).' }),
  corsOrigins: list
    .pipe(z.array(z.url()))
    .prefault('')
    .meta({ description: 'Origins whose pages may ask this server, comma separated, as https://ui.example.org.' }),
  allowedHosts: list
    .prefault('')
    .meta({ description: 'Further host names under which a server without keys is reached, comma separated.' }),
  url: z.url().optional().meta({ description: 'Server that commands talk to; default http://<host>:<port>.' }),
  log: z.enum(['embedded', 'kafka']).prefault('embedded').meta({ description: 'Where events go: a log on this machine, or Kafka.' }),
  partitions: integer(1, 1024).prefault('4').meta({ description: 'Log partitions; fixed at creation.' }),
  logCompression: z.enum(['none', 'fast', 'zstd']).prefault('fast').meta({ description: 'Compression of the embedded log.' }),
  kafkaBrokers: list.prefault('').meta({ description: 'host:port, comma separated.' }),
  kafkaClient: z.enum(['platformatic', 'kafkajs']).prefault('platformatic').meta({ description: 'Which client library speaks to Kafka.' }),
  kafkaTopicPrefix: z
    .string()
    .regex(/^[a-zA-Z0-9._-]{1,200}$/)
    .prefault('tapedeck')
    .meta({ description: 'Topics are <prefix>.events and <prefix>.feeds.' }),
  kafkaReplication: integer(1, 16).prefault('3').meta({ description: 'Replication factor of topics we create.' }),
  kafkaMinIsr: integer(1, 16).prefault('2').meta({ description: 'min.insync.replicas the topics must have.' }),
  kafkaTls: flag.prefault('false').meta({ description: 'Speak TLS to the brokers.' }),
  kafkaSaslMechanism: z.enum(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512']).optional().meta({ description: 'SASL mechanism; unset = none.' }),
  kafkaSaslUsername: z.string().optional().meta({ description: 'User name for SASL.' }),
  kafkaSaslPassword: z.string().optional().meta({ description: 'SASL password.', secret: true }),
  clickhouseUrl: z.url().optional().meta({ description: 'ClickHouse over HTTP; unset = the embedded engine.' }),
  clickhouseUser: z.string().prefault('default').meta({ description: 'ClickHouse user.' }),
  clickhousePassword: z.string().prefault('').meta({ description: 'ClickHouse password.', secret: true }),
  clickhouseDatabase: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,62}$/)
    .prefault('tapedeck')
    .meta({ description: 'Database of the tables.' }),
  clickhouseCluster: z
    .string()
    .regex(/^[a-zA-Z0-9_-]{1,64}$/)
    .optional()
    .meta({ description: 'Cluster name; unset = one node.' }),
  clickhouseProjectUsers: flag
    .prefault('true')
    .meta({ description: 'On a ClickHouse server, queries run as a user of their project that Tapedeck makes (docs/security.md).' }),
  engineSlots: integer(2, 64).prefault('12').meta({ description: 'Queries the embedded engine runs at once.' }),
  blobs: z.enum(['directory', 's3']).prefault('directory').meta({ description: 'Where large values go.' }),
  s3Endpoint: z.url().optional().meta({ description: 'S3-compatible endpoint; unset = AWS.' }),
  s3Bucket: z.string().optional().meta({ description: 'Bucket for blobs.' }),
  s3Region: z.string().prefault('us-east-1').meta({ description: 'Region of the bucket.' }),
  s3AccessKey: z.string().optional().meta({ description: 'Access key id.', secret: true }),
  s3SecretKey: z.string().optional().meta({ description: 'Secret access key.', secret: true }),
  maxBodyBytes: integer(1024, 1024 * MIB)
    .prefault(String(64 * MIB))
    .meta({ description: 'Largest request body as sent, bytes.' }),
  maxInflatedBytes: integer(1024, 2047 * MIB)
    .prefault(String(256 * MIB))
    .meta({ description: 'Largest request body after decompression, bytes.' }),
  maxEventBytes: integer(1024, 1_048_576)
    .prefault('1000000')
    .meta({ description: 'Largest event in the log, after large values moved to blobs, bytes.' }),
  maxItems: integer(1, 1_000_000).prefault('50000').meta({ description: 'Most events in one request.' }),
  inlineBytes: integer(1024, 1_000_000)
    .prefault('262144')
    .meta({ description: 'A text or tensor longer than this goes to the blob store, bytes.' }),
  inFlightBytes: integer(MIB, 64 * 1024 * MIB)
    .prefault(String(256 * MIB))
    .meta({ description: 'Request bytes in flight before 429.' }),
  bodyTimeoutMs: integer(100, 3_600_000).prefault('30000').meta({ description: 'A body must arrive whole within this time.' }),
  blockBytes: integer(65_536, 256 * MIB)
    .prefault(String(32 * MIB))
    .meta({ description: 'The projector stores blocks of at most this many log bytes.' }),
  blockEvents: integer(1, 1_000_000).prefault('10000').meta({ description: 'The projector stores blocks of at most this many events.' }),
  blockWaitMs: integer(0, 60_000).prefault('300').meta({
    description:
      'How long the projector lets a block fill up when it is caught up; up to three times as long from 1,500 events a second on.',
  }),
  feedSliceBytes: integer(MIB, 64 * 1024 * MIB)
    .prefault(String(512 * MIB))
    .meta({ description: 'Slices of batches that each trainer feed keeps in memory, bytes.' }),
  feedScoringRequests: integer(1, 4096)
    .prefault('16')
    .meta({ description: 'Requests that trainer feeds have under way at one upstream, for judgements and teacher scores.' }),
  feedAlgorithms: list
    .prefault('')
    .meta({ description: 'Modules that define algorithms of your own, comma separated paths (docs/algorithms.md).' }),
  sqlTimeoutMs: integer(100, 3_600_000).prefault('60000').meta({ description: 'A query may take this long.' }),
  sqlMaxRows: integer(1, 1_000_000_000).prefault('10000000').meta({ description: 'Rows a query may return.' }),
  sqlMaxBytes: integer(1024, 64 * 1024 * MIB)
    .prefault(String(2048 * MIB))
    .meta({ description: 'Bytes a query may return.' }),
  sqlMaxMemory: integer(MIB, 1024 * 1024 * MIB)
    .prefault(String(4096 * MIB))
    .meta({ description: 'Memory a query may use, bytes.' }),
  upstreams: z
    .string()
    .optional()
    .meta({ description: 'Model servers behind the gateway, by name: JSON, or the path of a JSON file (docs/gateway.md).' }),
  gatewaySecret: z.string().min(32).optional().meta({
    description: 'Signs the keys of the gateway, the same for all gateways; unset = made once and kept in the data folder.',
    secret: true,
  }),
  gatewayInFlightBytes: integer(MIB, 64 * 1024 * MIB)
    .prefault(String(512 * MIB))
    .meta({ description: 'Memory of calls under way before 429.' }),
  gatewayKeepAliveMs: integer(100, 3_600_000).prefault('10000').meta({ description: 'A silent stream gets a comment this often.' }),
  gatewayStallMs: integer(100, 3_600_000)
    .prefault('120000')
    .meta({ description: 'A harness that reads nothing of its stream this long counts as gone.' }),
  demo: flag.prefault('true').meta({
    description: 'On an empty store a small training run is played in the background (docs/learning.md); false = never.',
  }),
  crashPoint: z.string().optional().meta({ description: 'For crash tests only: <point>:<n> ends the process with SIGKILL there.' }),
});

export type Config = Omit<z.output<typeof settings>, 'url'> & { readonly url: string };
type Key = keyof typeof settings.shape;

export function variableOf(key: string): string {
  return `TAPEDECK_${key.replaceAll(/[A-Z]/g, (c) => `_${c}`).toUpperCase()}`;
}

/** One line per setting: variable, default, meaning; for `tapedeck config` and the docs. */
export function describeSettings(): { key: string; variable: string; fallback: string | null; about: string; secret: boolean }[] {
  return (Object.keys(settings.shape) as Key[]).map((key) => {
    const schema = settings.shape[key];
    const meta = schema.meta() as { description: string; secret?: boolean };
    const fallback = schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : null;
    return { key, variable: variableOf(key), fallback, about: meta.description, secret: meta.secret === true };
  });
}

/** Reads and checks all settings; the error names every bad one at once, with its limit. */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const keys = Object.keys(settings.shape);
  const given = Object.fromEntries(keys.map((key) => [key, env[variableOf(key)]]).filter(([, text]) => text !== undefined && text !== ''));
  const parsed = settings.safeParse(given);
  const problems = parsed.success ? [] : parsed.error.issues.map((i) => `${variableOf(String(i.path[0]))}: ${i.message}`);
  const known = new Set(keys.map(variableOf));
  for (const name of Object.keys(env)) {
    if (name.startsWith('TAPEDECK_') && !known.has(name) && !NOT_SETTINGS.has(name)) problems.push(`${name}: there is no such setting`);
  }
  if (parsed.success) problems.push(...crossChecks(parsed.data));
  if (!parsed.success || problems.length > 0) {
    throw new TapedeckError('config_invalid', `these settings are wrong:\n  ${problems.join('\n  ')}\nsee: tapedeck config`);
  }
  const config = parsed.data;
  return {
    ...config,
    data: resolve(config.data),
    url: config.url ?? `${config.tlsCert === undefined ? 'http' : 'https'}://${hostInUrl(config.host)}:${config.port}`,
  };
}

/** An address as it stands in a URL; one that means all addresses is reached on this machine. */
export function hostInUrl(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/** One variable of the environment, for settings that name where a secret lies. */
export function environmentVariable(name: string): string | undefined {
  return process.env[name];
}

/** The environment of a program that a command runs: ours, with some variables of its own. Settings of ours are not handed down. */
export function programEnvironment(own: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('TAPEDECK_'));
  return { ...Object.fromEntries(kept), ...own };
}

/**
 * The environment of the projector's process. Its buffers are large, grow and go: glibc learns from the first one that is freed to keep all up to 32 MB in one heap, which
 * only shrinks from its end. With the threshold fixed, a large buffer that is let go is memory of the kernel again.
 */
export function projectorEnvironment(): NodeJS.ProcessEnv {
  return { MALLOC_MMAP_THRESHOLD_: String(256 * 1024), ...process.env };
}

/** Variables of tests and tools that share the prefix. */
const NOT_SETTINGS = new Set([
  'TAPEDECK_REQUIRE',
  'TAPEDECK_FAULTS',
  'TAPEDECK_PYTHON',
  'TAPEDECK_KAFKA_JARS',
  'TAPEDECK_KILLS',
  'TAPEDECK_SEED',
  'TAPEDECK_FEED_RUNS',
]);

function crossChecks(config: z.output<typeof settings>): string[] {
  const problems: string[] = [];
  if ((config.tlsCert === undefined) !== (config.tlsKey === undefined)) problems.push('TAPEDECK_TLS_CERT and TAPEDECK_TLS_KEY go together');
  if (config.log === 'kafka' && config.kafkaBrokers.length === 0) problems.push('TAPEDECK_KAFKA_BROKERS is needed with TAPEDECK_LOG=kafka');
  if (config.kafkaMinIsr > config.kafkaReplication) problems.push('TAPEDECK_KAFKA_MIN_ISR must not exceed TAPEDECK_KAFKA_REPLICATION');
  if (config.blobs === 's3' && config.s3Bucket === undefined) problems.push('TAPEDECK_S3_BUCKET is needed with TAPEDECK_BLOBS=s3');
  if (config.inlineBytes >= config.maxEventBytes) problems.push('TAPEDECK_INLINE_BYTES must be below TAPEDECK_MAX_EVENT_BYTES');
  return problems;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** Where things lie under the data folder. */
export function paths(config: Pick<Config, 'data' | 'keys'>) {
  const at = (name: string): string => join(config.data, name);
  return {
    log: at('log'),
    engine: at('engine'),
    blobs: at('blobs'),
    feeds: at('feeds'),
    demo: at('demo'),
    exports: at('exports'),
    gatewaySecret: at('gateway.secret'),
    keys: config.keys === undefined ? at('keys.json') : resolve(config.keys),
    audit: at('audit.log'),
  };
}
