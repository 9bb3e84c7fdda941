/** The ClickHouse JDBC driver and what it needs. */
import { join } from 'node:path';
import { mavenJars, missingForJars } from './maven-jars.ts';

const VERSION = '0.9.4';

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
