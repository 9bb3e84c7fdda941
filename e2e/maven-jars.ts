/** Jars and everything they need, from Maven, kept in a folder outside the repository. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const FETCH_TIMEOUT_MS = 300_000;
const run = promisify(execFile);

export type JarSet = {
  /** Names the folder of the set. */
  readonly name: string;
  /** Another version is fetched into another folder beside it. */
  readonly version: string;
  /** `group:artifact:version`, each. */
  readonly artifacts: readonly string[];
  /** Where the sets lie; default `~/.cache/tapedeck/<name>`. */
  readonly cache?: string | undefined;
};

/** Why no jars can be fetched or run here, or null. */
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

/** The folder of the set's jars: fetched once, then found. */
export async function mavenJars({
  name,
  version,
  artifacts,
  cache = join(homedir(), '.cache', 'tapedeck', name),
}: JarSet): Promise<string> {
  const jars = join(cache, `lib-${version}`);
  if (existsSync(jars)) return jars;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, 'fetch-'));
  try {
    await writeFile(join(work, 'pom.xml'), pom(name, artifacts));
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${join(work, 'lib')}`];
    await run('mvn', ['-q', '-B', '-f', join(work, 'pom.xml'), ...goal], { timeout: FETCH_TIMEOUT_MS });
    // By one rename: a folder that is there is whole. Who comes second keeps the first one's.
    await rename(join(work, 'lib'), jars).catch((error: unknown) => {
      if (!existsSync(jars)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return jars;
}

function pom(name: string, artifacts: readonly string[]): string {
  const dependencies = artifacts.map((each) => {
    const [group, artifact, version] = each.split(':');
    return `    <dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tapedeck</groupId><artifactId>${name}-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
${dependencies.join('\n')}
  </dependencies>
</project>
`;
}
