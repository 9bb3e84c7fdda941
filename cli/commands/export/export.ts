/** `tapedeck export`: a format of the server made by a job of it and downloaded; `tapedeck export verifiers` streams. */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Command } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import type { Config } from '../../config.ts';
import { asSeconds } from '../../render/as-seconds.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { allStored, DEFAULT_WAIT_SECONDS } from './all-stored.ts';
import { downloadToFile, downloadToStream, partialOf } from './download.ts';
import { beginExport, filePath, formatsOf, removeExport, whenWritten, type ExportAsked, type ExportStatus, type JobPlace } from './export-job.ts'; // prettier-ignore
import { showExport, type ExportProgress } from './export-progress.ts';
import { formatsText, reportText } from './report-text.ts';
import { verifiersCommand, type OpenEpisodeSource } from './verifiers.ts';

type Options = {
  readonly url: string;
  readonly project: string;
  readonly run?: string;
  readonly of?: string;
  readonly filter?: string;
  readonly fields?: string;
  readonly sort?: string;
  readonly asOf?: string;
  readonly out?: string;
  readonly resume?: string;
  readonly keep?: boolean;
  readonly json?: boolean;
  readonly wait: number;
};

/** Failures that leave the export on the server as it was. */
const RESUMABLE = ['store_unavailable', 'truncated_body', 'disk_full', 'not_writable', 'digest_mismatch', 'usage'] as const;

/** Exit codes: 0 all written, 2 something was left out as a whole, 1 failed, 130 stopped by Ctrl-C (`--resume` goes on). */
export function exportCommand(config: Pick<Config, 'url' | 'project'>, openSource: OpenEpisodeSource): Command {
  return new Command('export')
    .description('export rollouts, traces and rows of any list to files')
    .argument('[format]', 'a format of the server; without one they are listed')
    .option('--run <id>', 'only of this run')
    .option('--of <resource>', 'what rows are of, where the format takes any: rollouts, calls, …')
    .option('--filter <json>', 'conditions as in lists: {"step": {"gte": 100}}')
    .option('--fields <names>', 'fields of rows, separated by commas')
    .option('--sort <fields>', 'order, separated by commas, a leading minus is descending')
    .option('--as-of <position>', 'a log position or time: the same request gives the same file')
    .option('--project <id>', 'project to export of', config.project ?? DEFAULT_PROJECT)
    .option('--url <url>', 'server to read from', config.url)
    .option('-o, --out <file>', "file to write, - for standard output (default: the server's name for it, in this folder)")
    .option('--resume <id>', 'go on with an export that was begun: wait for it and download what is missing')
    .option('--keep', 'leave the file on the server as well, for a day')
    .option('--wait <seconds>', 'wait until what is accepted now is stored; fail when none of it was stored for so long (0: fail at once)', asSeconds, DEFAULT_WAIT_SECONDS)
    .option('--json', 'print the state of the export as JSON (to stderr when the file goes to standard output)')
    .addCommand(verifiersCommand(config, openSource))
    .action(async (format: string | undefined, options: Options) => {
      process.exitCode = await run(format, options);
    });
} // prettier-ignore

async function run(format: string | undefined, options: Options): Promise<number> {
  const stop = onInterrupt(systemClock);
  const { url, project, resume } = options;
  const progress = showExport();
  let place: JobPlace | null = resume === undefined ? null : { url, project, id: resume };
  try {
    if (format === undefined && place === null) {
      process.stdout.write(formatsText(await formatsOf(url, stop.signal)));
      return 0;
    }
    place ??= { url, project, id: (await begin(format as string, options, stop.signal)).id };
    const status = await whenWritten(place, stop.signal, progress.written);
    const out = options.out ?? fresh(status.fileName);
    await download(place, status, out, progress, stop.signal);
    if (options.keep !== true) await removeExport(place);
    progress.stop();
    const target = out === '-' ? process.stderr : process.stdout;
    target.write(options.json === true ? `${JSON.stringify({ ...status, out }, null, 2)}\n` : reportText(status, out));
    return (status.report?.incomplete.length ?? 0) > 0 ? 2 : 0;
  } catch (error) {
    progress.stop();
    if (place !== null && (stop.signal.aborted || isTapedeckError(error, ...RESUMABLE))) process.stderr.write(`${hint(place, options)}\n`);
    if (stop.signal.aborted) return INTERRUPTED;
    throw error;
  } finally {
    stop.done();
  }
}

async function begin(format: string, options: Options, signal: AbortSignal): Promise<ExportStatus> {
  const asked = askedOf(format, options);
  await allStored(options, signal);
  return beginExport(options.url, asked);
}

function askedOf(format: string, { project, of, run: runId, filter, fields, sort, asOf }: Options): ExportAsked {
  const given = filter === undefined ? null : conditions(filter);
  const ofRun = runId === undefined ? null : { run: runId };
  const both = given !== null && ofRun !== null ? { and: [ofRun, given] } : (given ?? ofRun);
  return {
    project,
    format,
    ...(of !== undefined && { of }),
    ...(both !== null && { filter: both }),
    ...(fields !== undefined && { fields: fields.split(',') }),
    ...(sort !== undefined && { sort: sort.split(',') }),
    ...(asOf !== undefined && { asOf }),
  };
}

function conditions(text: string): object {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // falls through to the message
  }
  throw new TapedeckError('usage', '--filter must be a JSON object, as in --filter \'{"env": "sums"}\'');
}

/** The server names the file; it goes into this folder and never over another one, unless that is the rest of it. */
function fresh(name: string): string {
  const own = basename(name);
  if (existsSync(own) && !existsSync(partialOf(own))) throw new TapedeckError('usage', `${own} is there already: name another file with --out`);
  return own;
} // prettier-ignore

async function download(place: JobPlace, status: ExportStatus, out: string, progress: ExportProgress, signal: AbortSignal): Promise<void> {
  const remote = { url: place.url, path: filePath(place), bytes: status.bytes, sha256: status.sha256 as string };
  const { onBytes, onRetry } = progress.downloaded(status.bytes);
  if (out === '-') {
    await downloadToStream(remote, process.stdout, { signal, onBytes, onRetry });
    return;
  }
  await downloadToFile(remote, out, { signal, onBytes, onRetry });
  for (const { name, bytes, sha256 } of status.beside) {
    const own = { url: place.url, path: filePath(place, name), bytes, sha256 };
    await downloadToFile(own, join(dirname(out), basename(name)), { signal, onRetry });
  }
}

function hint({ id, project }: JobPlace, { out }: Options): string {
  const rest = `${project === DEFAULT_PROJECT ? '' : ` --project ${project}`}${out === undefined || out === '-' ? '' : ` -o ${out}`}`;
  return `to go on with this export: tapedeck export --resume ${id}${rest}`;
}
