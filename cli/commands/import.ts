/** `tapedeck import`: files of rollouts into a server. */
import { SingleBar, Presets } from 'cli-progress';
import { Command, InvalidArgumentError, Option } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import { findFiles, type FoundFile } from '../../ingest/importers/find-files.ts';
import { httpSink } from '../../ingest/importers/http-sink.ts';
import type { Config } from '../config.ts';
import { keyedFetch } from '../server-key.ts';
import { importFiles } from '../../ingest/importers/import-files.ts';
import { FORMATS, type Format } from '../../ingest/importers/recognise.ts';
import { addIssue, emptyReport, exitCodeOf, reportText, type ImportReport } from '../../ingest/importers/report.ts';
import { INTERRUPTED, onInterrupt } from './interrupt.ts';

const MIB = 1024 * 1024;
const LANES = 4;
const BATCH_BYTES = 1_000_000;
const BATCH_EVENTS = 5_000;

type Options = {
  readonly url: string;
  readonly project?: string;
  readonly run?: string;
  readonly format?: Format;
  readonly maxLineMib: number;
  readonly json?: boolean;
};

/** Exit codes: 0 all imported, 2 some lines, files or events not, 1 nothing imported or broken off, 130 stopped by Ctrl-C. */
export function importCommand(config: Pick<Config, 'url' | 'project'>): Command {
  return new Command('import')
    .description('import rollouts from files: verifiers v1 traces.jsonl, v0 results.jsonl, ATIF trajectories, plain or compressed')
    .argument('<paths...>', 'files, folders (searched through) or patterns')
    .option('--url <url>', 'server to send to', config.url)
    .option('--project <id>', 'project to import into (default: that of the key, or default)', config.project)
    .option('--run <id>', 'run for records that name none')
    .addOption(new Option('--format <format>', 'take every file for this format').choices(FORMATS))
    .option('--max-line-mib <n>', 'longest line that is read, MiB', positive, 512)
    .option('--json', 'print the report as JSON')
    .action(async (paths: string[], options: Options) => {
      process.exitCode = await run(paths, options);
    });
}

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 512) throw new InvalidArgumentError('must be a whole number from 1 to 512');
  return value;
}

async function run(paths: readonly string[], options: Options): Promise<number> {
  const { files, skipped } = await findFiles(paths, options.format);
  const report = emptyReport();
  report.skipped.push(...skipped);
  const stop = onInterrupt(systemClock);
  const progress = showProgress(files);
  try {
    await importFiles(
      files,
      {
        project: options.project,
        run: options.run,
        sink: httpSink({ url: options.url, fetch: keyedFetch, clock: systemClock, random: systemRandom, onRetry: progress.note }),
        signal: stop.signal,
        lanes: LANES,
        batchBytes: BATCH_BYTES,
        batchEvents: BATCH_EVENTS,
        maxLineBytes: options.maxLineMib * MIB,
        onProgress: progress.show,
      },
      report,
    );
  } catch (error) {
    report.interrupted = true;
    if (!stop.signal.aborted) addFailure(report, error);
  } finally {
    progress.stop();
    stop.done();
  }
  process.stdout.write(options.json === true ? `${JSON.stringify(report, null, 2)}\n` : reportText(report));
  return stop.signal.aborted ? INTERRUPTED : exitCodeOf(report);
}

function addFailure(report: ImportReport, error: unknown): void {
  if (!isTapedeckError(error)) throw error;
  addIssue(report, { path: report.files.at(-1)?.path ?? '', line: null, code: error.code, message: error.message });
}

type Progress = {
  readonly show: (progress: { readonly bytesRead: number; readonly sent: number }) => void;
  readonly note: (reason: string, waitMs: number) => void;
  readonly stop: () => void;
};

/** Bytes read of all files, with the rate and the time that is left, when stderr is a terminal. */
function showProgress(files: readonly FoundFile[]): Progress {
  if (!process.stderr.isTTY) return { show: () => {}, note: (reason) => void process.stderr.write(`waiting: ${reason}\n`), stop: () => {} };
  const started = systemClock.monotonicMs();
  const bar = new SingleBar(
    { format: '{bar} {percentage} % | {rate} MB/s | {sent} events | {eta_formatted} left', clearOnComplete: true, hideCursor: true },
    Presets.shades_classic,
  );
  bar.start(files.reduce((sum, file) => sum + file.size, 0), 0, { rate: '0.0', sent: 0 }); // prettier-ignore
  return {
    show: ({ bytesRead, sent }) => {
      const seconds = Math.max(0.001, (systemClock.monotonicMs() - started) / 1000);
      bar.update(bytesRead, { rate: (bytesRead / 1e6 / seconds).toFixed(1), sent });
    },
    note: (reason, waitMs) => void process.stderr.write(`\nwaiting ${Math.round(waitMs)} ms: ${reason}\n`),
    stop: () => bar.stop(),
  };
}
