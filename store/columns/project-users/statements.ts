/**
 * The rights of a project on a ClickHouse server: one user per project, who may read the views of that project and nothing else, under a settings profile that is read-only and
 * bounded. All SQL about users is rendered here. Pure.
 */
import { createHash } from 'node:crypto';
import { quote } from '../../../migrations/render.ts';
import { stringLiteral } from '../sql-literal.ts';

export type UsersTarget = {
  /** The database of the tables: names of users and of the profile begin with it. */
  readonly database: string;
  readonly cluster: { readonly name: string } | null;
};

/** What one query may cost at most, whatever a request asks for. */
export type QueryCaps = {
  readonly timeoutMs: number;
  readonly memoryBytes: number;
  readonly readRows: number;
  readonly readBytes: number;
  readonly resultRows: number;
};

/**
 * Tables about the server that a query of ClickHouse's clients may read (`query/clickhouse/system-tables.ts`) and that a server grants to nobody by itself: words of the
 * language, and numbers. Tables, columns and databases are granted to everybody there, each row only to who may read what it is about.
 */
export const GRANTED_SYSTEM_TABLES = ['keywords', 'numbers'] as const;

/** `<database>_<database of the project>`. */
export function projectUser({ database }: UsersTarget, projectDatabase: string): string {
  return `${database}_${projectDatabase}`;
}

export function profileName({ database }: UsersTarget): string {
  return `${database}_reader`;
}

/**
 * The profile of all projects' users. `readonly = 2` and not 1, because each query brings its own narrower limits and its settings of output, which 1 would refuse: what has to
 * hold is held by bounds on both sides (0 would mean "no limit").
 */
export function profileStatements(target: UsersTarget, caps: QueryCaps): string[] {
  const name = `${quote(profileName(target))}${onCluster(target)}`;
  const bounds: readonly (readonly [string, number, number])[] = [
    ['max_execution_time', Math.ceil(caps.timeoutMs / 1000), 0.001],
    ['max_memory_usage', caps.memoryBytes, 1],
    ['max_rows_to_read', caps.readRows, 1],
    ['max_bytes_to_read', caps.readBytes, 1],
    ['max_result_rows', caps.resultRows, 1],
  ];
  const settings = ['readonly = 2', ...bounds.map(([setting, most, least]) => `${setting} = ${most} MIN ${least} MAX ${most}`)].join(', ');
  return [`CREATE SETTINGS PROFILE IF NOT EXISTS ${name} SETTINGS ${settings}`, `ALTER SETTINGS PROFILE ${name} SETTINGS ${settings}`];
}

/**
 * Makes the user of a project, or makes an older one what it should be; any number of times, while queries run. The password is told as its hash; the grants replace
 * whatever the user was granted.
 */
export function userStatements(target: UsersTarget, projectDatabase: string, password: string): string[] {
  const user = quote(projectUser(target, projectDatabase));
  const hash = createHash('sha256').update(password).digest('hex');
  const identified = `IDENTIFIED WITH sha256_hash BY ${stringLiteral(hash)} SETTINGS PROFILE ${quote(profileName(target))}`;
  const grants = [`SELECT ON ${quote(projectDatabase)}.*`, ...GRANTED_SYSTEM_TABLES.map((table) => `SELECT ON system.${table}`)];
  return [
    `CREATE USER IF NOT EXISTS ${user}${onCluster(target)} ${identified}`,
    `ALTER USER ${user}${onCluster(target)} ${identified}`,
    `GRANT${onCluster(target)} ${grants.join(', ')} TO ${user} WITH REPLACE OPTION`,
  ];
}

function onCluster({ cluster }: UsersTarget): string {
  return cluster === null ? '' : ` ON CLUSTER ${quote(cluster.name)}`;
}
