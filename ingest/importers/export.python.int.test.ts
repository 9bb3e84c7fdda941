/** What another language makes of an exported file: Python's json, with int and float told apart. Needs Python 3 (TAPEDECK_PYTHON or python3), no packages. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ByteWriter } from '../../base/byte-writer.ts';
import { episodeOf } from './export-verifiers.ts';
import { fileBytes } from './file-bytes.ts';
import { writeJson } from './json-text.ts';
import { readLines } from './line-reader.ts';
import { jsonReader } from './read-json.ts';
import { EPISODES } from './sample-records.ts';
import { episodeEvents } from './verifiers-v1.ts';

const python = process.env['TAPEDECK_PYTHON'] ?? 'python3';
const skip = spawnSync(python, ['--version']).status === 0 ? false : `no Python: ${python} does not run`;
const SHARED = join(import.meta.dirname, '../../../shared');
const FILES = [
  ...globSync(`${SHARED}/data/verifiers-v1-generated/*.jsonl`),
  ...globSync(`${SHARED}/peers/samples/verifiers-0.4.0-*.jsonl`),
];

/** Equal in type and value; NaN equals NaN; -0.0 is not 0.0. */
const COMPARE = `
import json, math, sys
def same(a, b):
    if type(a) is not type(b): return False
    if isinstance(a, dict): return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list): return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float): return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b
pairs = 0
with open(sys.argv[1], encoding="utf-8", newline="\\n") as one, open(sys.argv[2], encoding="utf-8", newline="\\n") as two:
    for x, y in zip(one, two, strict=True):
        if not same(json.loads(x), json.loads(y)): sys.exit("line %d differs" % (pairs + 1))
        pairs += 1
print(pairs)
`;

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-python-'));
});
after(() => rm(folder, { recursive: true, force: true }));

/** The lines that are episodes, and each of them imported and exported. */
async function pairOf(lines: readonly Buffer[]): Promise<{ originals: Buffer[]; exported: Buffer[] }> {
  const read = jsonReader();
  const originals: Buffer[] = [];
  const exported: Buffer[] = [];
  for (const line of lines) {
    const value = read(line);
    const made = value.ok ? episodeEvents(value.value) : null;
    if (made?.ok !== true) continue;
    const found = await episodeOf(made.value.rollout, made.value.events.map((event) => event.slice)); // prettier-ignore
    const out = new ByteWriter();
    writeJson(found?.episode ?? null, out);
    originals.push(line);
    exported.push(out.take());
  }
  return { originals, exported };
}

async function compare(name: string, lines: readonly Buffer[]): Promise<void> {
  const { originals, exported } = await pairOf(lines);
  const paths = [join(folder, `${name}.in`), join(folder, `${name}.out`)] as const;
  await writeFile(paths[0], originals.map((line) => `${line.toString()}\n`).join(''));
  await writeFile(paths[1], exported.map((line) => `${line.toString()}\n`).join(''));
  const done = spawnSync(python, ['-c', COMPARE, ...paths], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
  assert.equal(Number(done.stdout), originals.length);
  assert.ok(originals.length > 0);
}

test('Python reads the sample episodes as equal, types included', { skip }, async () => {
  await compare('samples', EPISODES.map(([, text]) => Buffer.from(text))); // prettier-ignore
});

test('Python reads the collected episodes as equal, types included', { skip: skip === false && FILES.length === 0 ? 'the collected files (../shared/data) are not here' : skip }, async () => {
  for (const [i, path] of FILES.entries()) {
    const lines: Buffer[] = [];
    for await (const some of readLines(fileBytes(path))) lines.push(...some.flatMap(({ bytes }) => (bytes === null ? [] : [bytes])));
    await compare(`file${i}`, lines);
  }
}); // prettier-ignore
