/** `tapedeck keys create|list|revoke`: API keys, kept in one file that running servers follow. No server is needed, so the first key can be made before the first start. */
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import { entityId } from '../../events/fields.ts';
import { ALL_PROJECTS, KEY_ROLES, keyLimitsSchema, type KeyLimits, type KeyRecord, type KeyRole } from '../../store/keys/key-record.ts';
import { changeKeysFile, readKeysFile } from '../../store/keys/keys-file.ts';
import { hashOfToken, newToken } from '../../store/keys/token.ts';
import { paths, type Config } from '../config.ts';
import { appendAudit } from '../serve/access/audit-trail.ts';

type CreateOptions = {
  readonly project: string;
  readonly role: KeyRole;
  readonly name: string;
  readonly expires?: number;
  readonly limit: KeyLimits;
  readonly json?: boolean;
};

const LIMIT_NAMES = Object.keys(keyLimitsSchema.shape) as (keyof KeyLimits)[];

export function keysCommand(config: Config): Command {
  const { keys: file, audit } = paths(config);
  const told = (event: string, key: KeyRecord): Promise<void> => tell(audit, event, key);
  const command = new Command('keys');
  command
    .command('create')
    .description('make a key; its text is printed once and kept nowhere')
    .option(
      '--project <id>',
      `the project it is for; ${ALL_PROJECTS} for all, and for operations on the server`,
      projectId,
      config.project ?? 'default',
    )
    .addOption(new Option('--role <role>', 'what it may do; each may do what those before it may').choices(KEY_ROLES).default('read'))
    .option('--name <text>', 'what it is for, for people', '')
    .option('--expires <time>', 'when it ends: 90d, 12h, or a date as 2027-01-31', expiry)
    .option('--limit <name=value>', `a limit of its own, may be repeated: ${LIMIT_NAMES.join(', ')}`, limit, {})
    .option('--json', 'print everything about it as JSON')
    .action(async (options: CreateOptions) => create(file, options, told));
  command
    .command('list')
    .description('show all keys, without their texts')
    .option('--json', 'as JSON')
    .action(async (options: { readonly json?: boolean }) => list(file, options.json === true));
  command
    .command('revoke <id>')
    .description('end a key; running servers refuse it within a second')
    .action(async (id: string) => revoke(file, id, told));
  return command;
}

type Told = (event: string, key: KeyRecord) => Promise<void>;

async function create(file: string, { project, role, name, expires, limit: limits, json }: CreateOptions, told: Told): Promise<void> {
  if (name.length > 200) throw new TapedeckError('usage', '--name has more than 200 characters');
  const { id, token } = newToken(systemRandom);
  const record: KeyRecord = {
    id,
    name,
    project,
    role,
    hash: hashOfToken(token),
    created: now(),
    expires: expires ?? null,
    revoked: null,
    limits,
  };
  await changeKeysFile(file, systemClock, (keys) => [...keys, record]);
  await told('key.created', record);
  if (json === true) console.log(JSON.stringify({ ...shown(record), token }, null, 2));
  else {
    console.log(token);
    const ends = record.expires === null ? 'does not expire' : `expires ${day(record.expires)}`;
    console.error(
      `key ${id}: ${role} on ${project === ALL_PROJECTS ? 'all projects' : `project ${project}`}, ${ends}. It is shown this once; keep it now.`,
    );
  }
}

async function list(file: string, asJson: boolean): Promise<void> {
  const keys = (await readKeysFile(file)) ?? [];
  if (asJson) {
    console.log(JSON.stringify(keys.map(shown), null, 2));
    return;
  }
  if (keys.length === 0) console.log(`no keys in ${file}: a server on loopback is open to everybody on its machine`);
  for (const key of keys) {
    const limits = Object.entries(key.limits).map(([name, value]) => `${name}=${value}`);
    const parts = [key.id, stateOf(key), key.role, key.project, `made ${day(key.created)}`, ...limits, key.name];
    console.log(parts.filter((part) => part !== '').join('  '));
  }
}

async function revoke(file: string, id: string, told: Told): Promise<void> {
  const wanted = id.replace(/^td_/, '').slice(0, 10);
  const keys = await changeKeysFile(file, systemClock, (all) => {
    if (!all.some((key) => key.id === wanted))
      throw new TapedeckError('not_found', `there is no key ${wanted} in ${file}: see tapedeck keys list`);
    return all.map((key) => (key.id === wanted && key.revoked === null ? { ...key, revoked: now() } : key));
  });
  await told('key.revoked', keys.find((key) => key.id === wanted) as KeyRecord);
  console.log(`key ${wanted} is revoked`);
}

/** The hash is no secret that could be used, but nobody needs to see it. */
function shown(record: KeyRecord): object {
  return { ...record, hash: undefined, state: stateOf(record) };
}

function stateOf({ revoked, expires }: KeyRecord): string {
  if (revoked !== null) return 'revoked';
  return expires !== null && expires <= now() ? 'expired' : 'active';
}

async function tell(file: string, event: string, { id, project, role, name }: KeyRecord): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await appendAudit(file, systemClock, { event, key: id, project, role, name, user: userInfo().username });
}

function now(): number {
  return Math.floor(systemClock.nowMicros() / 1e6);
}

function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ');
}

function projectId(text: string): string {
  const parsed = entityId.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError(parsed.error.issues.map(({ message }) => message).join('; '));
  return text;
}

const UNITS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400, w: 604_800 };

function expiry(text: string): number {
  const [, count, unit] = /^(\d{1,6})([mhdw])$/.exec(text) ?? [];
  const at = unit === undefined ? Math.floor(Date.parse(text) / 1000) : now() + Number(count) * (UNITS[unit] as number);
  if (!Number.isFinite(at)) throw new InvalidArgumentError('write it as 90d, 12h, 30m, 4w or a date as 2027-01-31');
  if (at <= now()) throw new InvalidArgumentError('that time is over already');
  return at;
}

function limit(text: string, before: KeyLimits): KeyLimits {
  const at = text.indexOf('=');
  const parsed = keyLimitsSchema.safeParse({ ...before, [text.slice(0, Math.max(at, 0))]: Number(text.slice(at + 1)) });
  if (at <= 0 || !parsed.success) throw new InvalidArgumentError(`write it as name=number, with a name of ${LIMIT_NAMES.join(', ')}`);
  return parsed.data;
}
