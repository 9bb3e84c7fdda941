/** The ClickHouse JDBC driver, what it needs, and the checks of what it may expect. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { mavenJars, missingForJars } from './maven-jars.ts';

const VERSION = '0.9.4';
const CHECKS = join(import.meta.dirname, '../store/columns/engine/conformance/JdbcChecks.java');
const run = promisify(execFile);

/** A class path with the driver, or why none can be had (to skip with). */
export async function jdbcDriver(): Promise<{ classPath: string } | { missing: string }> {
  const missing = await missingForJars();
  if (missing !== null) return { missing };
  try {
    const artifacts = [`com.clickhouse:clickhouse-jdbc:${VERSION}`, 'org.slf4j:slf4j-nop:2.0.7'];
    return { classPath: join(await mavenJars({ name: 'jdbc-jars', version: VERSION, artifacts }), '*') };
  } catch (error) {
    return { missing: `Maven has no ClickHouse JDBC driver for us: ${String(error).split('\n')[0]}` };
  }
}

/** What the checks found: `ok` or what went wrong, by name. `server` may be written to; `views` is the read-only interface to the fixture's project. */
export async function jdbcChecks(
  classPath: string,
  {
    kind,
    host,
    database,
    user,
    password,
  }: Record<'host' | 'database' | 'user' | 'password', string> & { readonly kind: 'server' | 'views' },
): Promise<ReadonlyMap<string, string>> {
  const { stdout } = await run('java', ['-cp', classPath, CHECKS, kind, `${host}/${database}`, user, password], { timeout: 240_000 });
  return new Map(stdout.trim().split('\n').map((line) => line.split('\t') as [string, string])); // prettier-ignore
}
