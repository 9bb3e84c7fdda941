/** `tapedeck export verifiers`: a run back to verifiers' own format, streamed as it is read. */
import { Command } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import {
  exportEpisodes,
  lineWriter,
  writeFileWhole,
  type EpisodeSource,
  type ExportReport,
} from '../../../ingest/importers/export-file.ts';
import type { Config } from '../../config.ts';
import { asSeconds } from '../../render/as-seconds.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { allStored, DEFAULT_WAIT_SECONDS } from './all-stored.ts';

type Options = {
  readonly url: string;
  readonly project: string;
  readonly run: string;
  readonly rollout?: readonly string[];
  readonly out: string;
  readonly json?: boolean;
  readonly wait: number;
};
/** Opens what episodes are read from on the server at `url`. */
export type OpenEpisodeSource = (url: string, signal: AbortSignal) => Promise<EpisodeSource & { close(): Promise<void> }>;

/**
 * Writes what was accepted when it was called: it waits for what is not stored yet. Exit codes: 0 all written, 2 some rollouts have no start and were left out, 1 failed,
 * 130 stopped by Ctrl-C (the file is then not there).
 */
export function verifiersCommand(config: Pick<Config, 'url' | 'project'>, openSource: OpenEpisodeSource): Command {
  return new Command('verifiers')
    .description('verifiers v1 episodes of a run, one per line (traces.jsonl), streamed')
    .requiredOption('--run <id>', 'the run to export')
    .option('--rollout <id...>', 'only these rollouts')
    .option('--project <id>', 'project of the run', config.project ?? DEFAULT_PROJECT)
    .option('--url <url>', 'server to read from', config.url)
    .option('-o, --out <file>', 'file to write, - for standard output', '-')
    .option(
      '--wait <seconds>',
      'wait until what is accepted now is stored; fail when none of it was stored for so long (0: fail at once)',
      asSeconds,
      DEFAULT_WAIT_SECONDS,
    )
    .option('--json', 'print what was written as JSON (to stderr when episodes go to standard output)')
    .action(async (options: Options) => {
      process.exitCode = await run(options, openSource);
    });
}

async function run(options: Options, openSource: OpenEpisodeSource): Promise<number> {
  const stop = onInterrupt(systemClock);
  const source = await openSource(options.url, stop.signal);
  try {
    await allStored(options, stop.signal);
    const { project, run: runId, rollout: rollouts = [] } = options;
    const wanted = { project, run: runId, rollouts, signal: stop.signal, onEpisode: progress };
    const report =
      options.out === '-'
        ? await exportEpisodes(source, wanted, lineWriter(process.stdout))
        : await writeFileWhole(options.out, (writeLine) => exportEpisodes(source, wanted, writeLine));
    tell(report, options);
    return report.incomplete.length > 0 ? 2 : 0;
  } catch (error) {
    if (stop.signal.aborted) return INTERRUPTED;
    throw error;
  } finally {
    stop.done();
    await source.close();
  }
}

function progress(episodes: number, bytes: number): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${episodes} episodes, ${(bytes / 1e6).toFixed(1)} MB`);
}

function tell(report: ExportReport, options: Options): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  const target = options.out === '-' ? process.stderr : process.stdout;
  target.write(options.json === true ? `${JSON.stringify(report, null, 2)}\n` : reportText(report, options.out));
}

function reportText(report: ExportReport, out: string): string {
  const lines = [`${report.episodes} episodes, ${report.bytes} bytes${out === '-' ? '' : ` written to ${out}`}`];
  for (const [what, count] of Object.entries(report.left)) lines.push(`${count} ${what}: no place in a v1 episode`);
  for (const rollout of report.incomplete) lines.push(`rollout ${rollout} has no rollout.started: left out`);
  return `${lines.join('\n')}\n`;
}
