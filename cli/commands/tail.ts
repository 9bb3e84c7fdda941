/** `tapedeck tail`: rollouts of a folder into a server while they are written. */
import { statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import { httpSink } from '../../ingest/importers/http-sink.ts';
import type { Config } from '../config.ts';
import { keyedFetch } from '../server-key.ts';
import { addIssue, emptyReport, type ImportReport } from '../../ingest/importers/report.ts';
import { tailText } from '../../ingest/tail/tail-report.ts';
import { tail } from '../../ingest/tail/tail.ts';
import type { TailProgress } from '../../ingest/tail/tailing.ts';
import { INTERRUPTED, onInterrupt } from './interrupt.ts';

const MIB = 1024 * 1024;
const LANES = 4;
const BATCH_BYTES = 1_000_000;
const BATCH_EVENTS = 5_000;
/** A server that is away is waited for: a week, then the tail ends, and the next start goes on. */
const PATIENCE_MS = 7 * 24 * 3_600_000;
const PATIENCE_ONCE_MS = 300_000;

type Options = {
  readonly url: string;
  readonly project?: string;
  readonly run?: string;
  readonly state?: string;
  readonly sweep: number;
  readonly maxLineMib: number;
  readonly once?: boolean;
  readonly json?: boolean;
};

/** Exit codes: 0 all taken, 2 some lines, files or events not, 1 broken off, 130 stopped by Ctrl-C (what was acknowledged is remembered). */
export function tailCommand(config: Pick<Config, 'url' | 'project'>): Command {
  return new Command('tail')
    .description('send rollouts while they are written: verifiers traces.jsonl and results.jsonl, prime-rl run folders')
    .argument('<folder>', 'folder to follow, with everything below it')
    .option('--url <url>', 'server to send to', config.url)
    .option('--project <id>', 'project to send into (default: that of the key, or default)', config.project)
    .option('--run <id>', 'run for records that name none')
    .option('--state <file>', 'where the places are kept (default: .tapedeck-tail.json in the folder)')
    .option('--sweep <seconds>', 'how often everything is looked at, beside the notices of the kernel', seconds, 5)
    .option('--max-line-mib <n>', 'longest line that is read, MiB', positive, 512)
    .option('--once', 'take what is there and end')
    .option('--json', 'print the report as JSON')
    .action(async (folder: string, options: Options) => {
      process.exitCode = await run(folder, options);
    });
}

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 512) throw new InvalidArgumentError('must be a whole number from 1 to 512');
  return value;
}

function seconds(text: string): number {
  const value = Number(text);
  if (!(value >= 0.1 && value <= 3600)) throw new InvalidArgumentError('must be from 0.1 to 3600');
  return value;
}

async function run(folder: string, options: Options): Promise<number> {
  const root = resolve(folder);
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) throw new TapedeckError('not_found', `${root} is no folder`);
  const once = options.once === true;
  const report = emptyReport();
  const stop = onInterrupt(systemClock);
  const progress = showProgress();
  try {
    await tail(
      {
        root,
        state: options.state === undefined ? join(root, '.tapedeck-tail.json') : resolve(options.state),
        target: { url: options.url, project: options.project ?? null, run: options.run ?? null },
        sink: httpSink({
          fetch: keyedFetch,
          url: options.url,
          clock: systemClock,
          random: systemRandom,
          patienceMs: once ? PATIENCE_ONCE_MS : PATIENCE_MS,
          onRetry: (reason) => progress.note(`waiting: ${reason}`),
        }),
        clock: systemClock,
        signal: stop.signal,
        once,
        sweepMs: options.sweep * 1000,
        lanes: LANES,
        batchBytes: BATCH_BYTES,
        batchEvents: BATCH_EVENTS,
        maxLineBytes: options.maxLineMib * MIB,
        onProgress: progress.show,
        onNote: progress.note,
      },
      report,
    );
  } catch (error) {
    report.interrupted = true;
    if (!stop.signal.aborted) {
      if (!isTapedeckError(error)) throw error;
      addIssue(report, { path: root, line: null, code: error.code, message: error.message });
    }
  } finally {
    progress.stop();
    stop.done();
  }
  process.stdout.write(options.json === true ? `${JSON.stringify(report, null, 2)}\n` : tailText(report));
  return stop.signal.aborted ? INTERRUPTED : exitCodeOf(report);
}

/** Unlike an import, a tail that found nothing to do did well. */
function exitCodeOf(report: ImportReport): 0 | 1 | 2 {
  if (report.interrupted) return 1;
  return report.issueCount > 0 || report.rejected > 0 ? 2 : 0;
}

type Progress = { readonly show: (progress: TailProgress) => void; readonly note: (text: string) => void; readonly stop: () => void };

/** One line that is written over when stderr is a terminal; notes otherwise. */
function showProgress(): Progress {
  const { stderr } = process;
  if (!stderr.isTTY) return { show: () => {}, note: (text) => void stderr.write(`${text}\n`), stop: () => {} };
  return {
    show: ({ files, lines, sent, waiting }) =>
      void stderr.write(`\r\x1b[K${files} files | ${lines} lines | ${sent} events${waiting > 0 ? ` | ${waiting} files to look at` : ''}`),
    note: (text) => void stderr.write(`\r\x1b[K${text}\n`),
    stop: () => void stderr.write('\r\x1b[K'),
  };
}
