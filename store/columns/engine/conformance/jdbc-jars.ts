/** The ClickHouse JDBC driver and what it needs, from Maven, kept in a folder outside the repository. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const VERSION = '0.9.4';
const FETCH_TIMEOUT_MS = 300_000;
const run = promisify(execFile);

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tapedeck</groupId><artifactId>jdbc-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>com.clickhouse</groupId><artifactId>clickhouse-jdbc</artifactId><version>${VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.7</version></dependency>
  </dependencies>
</project>
`;

/** A class path with the driver, or why none can be had (to skip with). */
export async function jdbcDriver(): Promise<{ classPath: string } | { missing: string }> {
  for (const tool of ['java', 'mvn']) {
    const isThere = await run(tool, ['-version']).then(
      () => true,
      () => false,
    );
    if (!isThere) return { missing: `${tool} is not installed` };
  }
  const cache = join(homedir(), '.cache', 'tapedeck', 'jdbc-jars');
  const jars = join(cache, `lib-${VERSION}`);
  try {
    if (!existsSync(jars)) await fetchJars(cache, jars);
  } catch (error) {
    return { missing: `Maven has no ClickHouse JDBC driver for us: ${String(error).split('\n')[0]}` };
  }
  return { classPath: join(jars, '*') };
}

async function fetchJars(cache: string, jars: string): Promise<void> {
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, 'fetch-'));
  try {
    await writeFile(join(work, 'pom.xml'), POM);
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${join(work, 'lib')}`];
    await run('mvn', ['-q', '-B', '-f', join(work, 'pom.xml'), ...goal], { timeout: FETCH_TIMEOUT_MS });
    // By one rename: a folder that is there is whole. Who comes second keeps the first one's.
    await rename(join(work, 'lib'), jars).catch((error: unknown) => {
      if (!existsSync(jars)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
