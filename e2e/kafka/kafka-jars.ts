/** A Kafka distribution without a download page: the broker's jars from Maven, kept in a folder outside the repository. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const KAFKA_VERSION = '4.4.0';
const run = promisify(execFile);
const FETCH_TIMEOUT_MS = 300_000;

const POM = `<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tapedeck</groupId><artifactId>kafka-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.3</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.25.3</version></dependency>
  </dependencies>
</project>
`;

/** The folder of jars: fetched once (45 jars, 43 MiB, half a minute), then found. TAPEDECK_KAFKA_JARS names another place for it. */
export async function kafkaJars(): Promise<string> {
  const cache = process.env['TAPEDECK_KAFKA_JARS'] ?? join(homedir(), '.cache', 'tapedeck', 'kafka-jars');
  const jars = join(cache, `lib-${KAFKA_VERSION}`);
  if (existsSync(jars)) return jars;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, 'fetch-'));
  try {
    await writeFile(join(work, 'pom.xml'), POM);
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${join(work, 'lib')}`];
    await run('mvn', ['-q', '-B', '-f', join(work, 'pom.xml'), ...goal], { timeout: FETCH_TIMEOUT_MS });
    // By one rename, so that a folder that is there is whole; who comes second keeps the first one's.
    await rename(join(work, 'lib'), jars).catch((error: unknown) => {
      if (!existsSync(jars)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return jars;
}

/** Why no broker can be started from jars here, or null. */
export async function missingForJars(): Promise<string | null> {
  for (const tool of ['java', 'mvn']) {
    const found = await run(tool, ['-version']).then(
      () => true,
      () => false,
    );
    if (!found) return `${tool} is not installed`;
  }
  return null;
}
