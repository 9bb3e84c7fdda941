/**
 * Rights without a server: the embedded engine keeps no users of its own, but it takes those of a file and holds them to their grants and their profile. So the grants and the bounds
 * that we render for a server are written into such a file, and the engine's one user is held to them. What a file cannot show is that a server carries out the statements themselves.
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { profileStatements, userStatements, type QueryCaps, type UsersTarget } from './statements.ts';

export type Order = {
  readonly directory: string;
  readonly config: string;
  readonly database: string | null;
  readonly statements: readonly string[];
};
export type Answer = { readonly text: string } | { readonly code: number; readonly message: string };

export const TARGET: UsersTarget = { database: 'tapedeck', cluster: null };
/** Who defines the views. The engine's own user, `default`, cannot: it is the one whose rights change. */
export const DEFINER = 'owner';

const EVERYTHING = '<profile>default</profile><access_management>1</access_management>';

/** As somebody who may do everything. */
export function runAsOwner(folder: string, statements: readonly string[]): Promise<Answer[]> {
  return run(folder, { database: null, statements }, users('', EVERYTHING));
}

/** As the user of the project with this database, in that database. */
export function runAsProject(folder: string, database: string, caps: QueryCaps, statements: readonly string[]): Promise<Answer[]> {
  const grant = /^GRANT .*(?= TO )/.exec(userStatements(TARGET, database, 'any').at(-1) ?? '')?.[0];
  const settings = [...(profileStatements(TARGET, caps)[0] ?? '').matchAll(/(\w+) = (\S+?)(?: MIN (\S+) MAX (\S+?))?(?:,|$)/g)];
  const values = settings.map(([, name, value]) => `<${name}>${value}</${name}>`);
  const bounds = settings.flatMap(([, name, , min, max]) => (min === undefined ? [] : [`<${name}><min>${min}</min><max>${max}</max></${name}>`])); // prettier-ignore
  const profile = `<reader>${values.join('')}<constraints>${bounds.join('')}</constraints></reader>`;
  return run(folder, { database, statements }, users(profile, `<profile>reader</profile><grants><query>${grant}</query></grants>`));
}

function users(profile: string, rights: string): string {
  const user = (name: string, its: string): string =>
    `<${name}><password></password><networks><ip>::/0</ip></networks><quota>default</quota>${its}</${name}>`;
  return `<clickhouse><profiles><default/>${profile}</profiles><quotas><default/></quotas><users>${user('default', rights)}${user(DEFINER, EVERYTHING)}</users></clickhouse>`;
}

async function run(folder: string, order: Pick<Order, 'database' | 'statements'>, usersFile: string): Promise<Answer[]> {
  const file = (name: string): string => join(folder, name);
  writeFileSync(file('users.xml'), usersFile);
  writeFileSync(file('config.xml'), `<clickhouse><users_config>${file('users.xml')}</users_config></clickhouse>`);
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'rights-child.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify({ ...order, directory: file('engine/store'), config: file('config.xml') } satisfies Order));
  const lines = (await text(child.stdout)).split('\n').filter((line) => line !== '');
  if (lines.length !== order.statements.length) throw new Error(`${lines.length} answers to ${order.statements.length} statements`);
  return lines.map((line) => JSON.parse(line) as Answer);
}
