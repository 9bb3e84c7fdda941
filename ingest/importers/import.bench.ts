/**
 * What an import costs, stage by stage, beside the limits of the same bytes, and how much memory a large file takes.
 * Run: node ingest/importers/import.bench.ts [file] [MiB of the large file, default 300]
 * Default file: the 600 converted verifiers episodes of ../shared/data. CPU seconds of this process, so that neighbours on the machine disturb less.
 */
import { createWriteStream, existsSync, globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGzip } from 'node:zlib';
import { pipeline } from 'node:stream/promises';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { openEdge } from '../http/edge-under-test.ts';
import { fileBytes } from './file-bytes.ts';
import { findFiles } from './find-files.ts';
import { httpSink } from './http-sink.ts';
import { importFiles } from './import-files.ts';
import type { Sink } from './lanes.ts';
import { readLines } from './line-reader.ts';
import { jsonReader } from './read-json.ts';
import { TRAIN_EPISODE } from './sample-records.ts';
import { episodeEvents } from './verifiers-v1.ts';

const CONVERTED = join(import.meta.dirname, '../../../shared/data/verifiers-v1-converted');
const MIB = 1024 * 1024;
const nothing: Sink = async (slices) => ({ accepted: slices.length, duplicates: 0, rejected: [] });

async function measure(name: string, work: () => Promise<string>): Promise<void> {
  const before = process.cpuUsage();
  const start = performance.now();
  const said = await work();
  const wall = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(before);
  process.stdout.write(
    `${name.padEnd(52)} ${((user + system) / 1e6).toFixed(2).padStart(6)} s CPU ${wall.toFixed(2).padStart(6)} s wall   ${said}\n`,
  );
}

async function importAll(path: string, sink: Sink): Promise<string> {
  const { files } = await findFiles([path]);
  const signal = AbortSignal.timeout(600_000);
  const report = await importFiles(files, { sink, signal, lanes: 4, batchBytes: 1_000_000, batchEvents: 5000 });
  return `${report.files[0]?.imported} episodes, ${report.accepted} events, ${report.issueCount} issues`;
}

async function linesOf(path: string): Promise<Buffer[]> {
  const found: Buffer[] = [];
  for await (const lines of readLines(fileBytes(path))) for (const { bytes } of lines) if (bytes !== null) found.push(bytes);
  return found;
}

async function stages(path: string): Promise<void> {
  let lines: Buffer[] = [];
  await measure('limit: read, decompress, split into lines', async () => {
    lines = await linesOf(path);
    return `${lines.length} lines, ${(lines.reduce((sum, line) => sum + line.length, 0) / 1e6).toFixed(1)} MB`;
  });
  await measure('limit: JSON.parse of every line (inexact)', async () => {
    for (const line of lines) JSON.parse(line.toString());
    return '';
  });
  const read = jsonReader();
  await measure('exact values of every line', async () => {
    for (const line of lines) read(line);
    return '';
  });
  await measure('exact values and events of every line', async () => {
    let bytes = 0;
    for (const line of lines) {
      const value = read(line);
      const made = value.ok ? episodeEvents(value.value) : null;
      if (made?.ok === true) for (const { slice } of made.value.events) bytes += slice.length;
    }
    return `${(bytes / 1e6).toFixed(1)} MB of events`;
  });
  await measure('import into nothing', () => importAll(path, nothing));
  const edge = await openEdge();
  const sink = httpSink({ url: edge.url, clock: systemClock, random: systemRandom });
  await measure('import over HTTP into a log, edge in this process', () => importAll(path, sink));
  await edge.close();
}

/** Peak memory of importing a file much larger than it. */
async function memory(mib: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tapedeck-import-bench-'));
  const path = join(folder, 'large.traces.jsonl.gz');
  let n = 0;
  async function* episodes(): AsyncGenerator<string> {
    for (let bytes = 0; bytes < mib * MIB; bytes += TRAIN_EPISODE.length) yield `${TRAIN_EPISODE.replace('"e1"', `"e${n++}"`)}\n`;
  }
  await pipeline(episodes, createGzip({ level: 1 }), createWriteStream(path));
  let peak = 0;
  const watch: Sink = async (slices, signal) => {
    peak = Math.max(peak, process.memoryUsage.rss());
    return nothing(slices, signal);
  };
  await measure(`import of ${mib} MiB of episodes into nothing`, async () => {
    const said = await importAll(path, watch);
    return `${said}; resident at most ${Math.round(peak / MIB)} MiB`;
  });
  await rm(folder, { recursive: true, force: true });
}

const file = process.argv[2] ?? globSync(`${CONVERTED}/*.jsonl.gz`)[0];
if (file !== undefined && existsSync(file)) await stages(file);
else process.stdout.write('no file given, and the converted verifiers file is not here\n');
await memory(Number(process.argv[3] ?? 300));
