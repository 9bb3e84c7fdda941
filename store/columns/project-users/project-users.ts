/** Queries in the database of a project run as the ClickHouse user of that project, so that the server itself knows nothing else to answer. */
import { createHmac } from 'node:crypto';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import type { ColumnStore, Credentials, NativeBlock, QueryOptions, ResultStream } from '../column-store.ts';
import { PROJECT_DATABASE_PREFIX } from '../project-database.ts';
import { profileStatements, projectUser, userStatements, type QueryCaps, type UsersTarget } from './statements.ts';

export type ProjectUsersOptions = {
  /** Connected as the owner of the tables, who may make users. */
  readonly store: ColumnStore;
  readonly target: UsersTarget;
  readonly caps: QueryCaps;
  /** The owner's password. Those of the users derive from it: whoever knows it reads all projects anyway, and with it they change. */
  readonly secret: string;
};

/** The user does not exist, or has another password. */
const AUTHENTICATION_FAILED = 516;
/** The owner may not make users, or the server keeps its users in files. */
const NO_USERS: ReadonlySet<unknown> = new Set([495, 497, 514]);

/**
 * A store that asks as the project's user wherever a query names the database of a project. The user is made when it is first needed, and again when the server does not know it or
 * its password: the owner's was changed, or the server was set up anew.
 */
export class ProjectUsers implements ColumnStore {
  readonly #options: ProjectUsersOptions;
  readonly #made = new Map<string, Promise<void>>();

  constructor(options: ProjectUsersOptions) {
    this.#options = options;
  }

  /** Makes the profile of the users. Throws `config_invalid` when the owner may not: no query of a project could run. */
  async prepare(): Promise<void> {
    const { store, target, caps } = this.#options;
    try {
      for (const statement of profileStatements(target, caps)) await store.command(statement);
    } catch (error) {
      throw withRemedy(error);
    }
  }

  rows<T>(sql: string, options: QueryOptions = {}): Promise<T[]> {
    return this.#as(options, (own) => this.#options.store.rows<T>(sql, own));
  }

  stream(sql: string, format: string, options: QueryOptions = {}): Promise<ResultStream> {
    return this.#as(options, (own) => this.#options.store.stream(sql, format, own));
  }

  insertNative(table: string, columns: readonly string[], block: NativeBlock, options?: QueryOptions): Promise<void> {
    return this.#options.store.insertNative(table, columns, block, options);
  }

  command(sql: string, options: QueryOptions = {}): Promise<void> {
    return this.#as(options, (own) => this.#options.store.command(sql, own));
  }

  ping(signal?: AbortSignal): Promise<void> {
    return this.#options.store.ping(signal);
  }

  close(): Promise<void> {
    return this.#options.store.close();
  }

  async #as<T>(options: QueryOptions, work: (options: QueryOptions) => Promise<T>): Promise<T> {
    const { database } = options;
    if (database === undefined || !database.startsWith(PROJECT_DATABASE_PREFIX)) return work(options);
    // read-only is a matter of the user's profile, which would refuse a change of it
    const { readonly: _, ...settings } = options.settings ?? {};
    const own = { ...options, settings, credentials: credentialsOf(this.#options, database) };
    const made = this.#make(database);
    await made;
    try {
      return await work(own);
    } catch (error) {
      if (!isTapedeckError(error) || error.details['clickhouseCode'] !== AUTHENTICATION_FAILED) throw error;
      if (this.#made.get(database) === made) this.#made.delete(database);
      await this.#make(database);
      return work(own);
    }
  }

  #make(database: string): Promise<void> {
    const known = this.#made.get(database);
    if (known !== undefined) return known;
    const making = makeUser(this.#options, database);
    this.#made.set(database, making);
    making.catch(() => {
      if (this.#made.get(database) === making) this.#made.delete(database);
    });
    return making;
  }
}

async function makeUser(options: ProjectUsersOptions, database: string): Promise<void> {
  const { store, target } = options;
  // no user for a project that nobody has written to: the server says that there is no such database
  await store.rows('SELECT 1 AS found', { database });
  try {
    for (const statement of userStatements(target, database, credentialsOf(options, database).password)) await store.command(statement);
  } catch (error) {
    throw withRemedy(error);
  }
}

function credentialsOf({ target, secret }: ProjectUsersOptions, database: string): Credentials {
  const user = projectUser(target, database);
  return { user, password: createHmac('sha256', secret).update(`user of a project: ${user}`).digest('base64url') };
}

function withRemedy(error: unknown): unknown {
  if (!isTapedeckError(error) || !NO_USERS.has(error.details['clickhouseCode'])) return error;
  return new TapedeckError(
    'config_invalid',
    'TAPEDECK_CLICKHOUSE_USER may not make the users that queries run as: grant it what docs/security.md lists, or set TAPEDECK_CLICKHOUSE_PROJECT_USERS=false',
    { cause: error, details: error.details },
  );
}
