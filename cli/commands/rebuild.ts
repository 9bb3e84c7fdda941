import { Presets, SingleBar } from 'cli-progress';
import { Command } from 'commander';
import type { RebuildProgress } from '../../query/operations/rebuild.ts';
import type { Config } from '../config.ts';
import { progressOf } from '../ndjson-answer.ts';
import { request } from '../server-request.ts';

type Options = { readonly url: string; readonly check?: boolean; readonly json?: boolean };

/** `tapedeck rebuild [--check]`: exit code 0, or 1 when `--check` finds an answer that differs. */
export function rebuildCommand(config: Config): Command {
  return new Command()
    .option('--check', 'compare the answers of every view with the live ones and leave these as they are')
    .option('--url <url>', 'server to ask', config.url)
    .option('--json', 'progress as JSON lines')
    .action(async (options: Options) => {
      const body = JSON.stringify({ check: options.check === true });
      const answer = await request(options.url, '/v1/rebuild', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      const bar =
        process.stderr.isTTY && options.json !== true
          ? new SingleBar(
              { format: 'building {bar} {percentage}% | {value}/{total} events | {eta_formatted} left' },
              Presets.shades_classic,
            )
          : null;
      try {
        for await (const progress of progressOf<RebuildProgress>(answer)) show(progress, options, bar);
      } finally {
        bar?.stop();
      }
    });
}

function show(progress: RebuildProgress, options: Options, bar: SingleBar | null): void {
  if (options.json === true) console.log(JSON.stringify(progress));
  if (progress.phase === 'building') {
    if (bar?.isActive === false) bar.start(progress.of, 0);
    bar?.setTotal(progress.of);
    bar?.update(progress.events);
    return;
  }
  bar?.stop();
  if (progress.phase === 'comparing') {
    const { project, view, rows, rebuiltRows, equal, difference } = progress.compared;
    if (options.json === true) return;
    console.log(`${equal ? 'equal    ' : 'DIFFERENT'} ${project}.${view}: ${rows} rows${equal ? '' : `, rebuilt ${rebuiltRows}`}`);
    if (difference !== null) console.log(`  only ${difference.only}: ${difference.row}`);
    return;
  }
  if (progress.equal === false) process.exitCode = 1;
  if (options.json === true) return;
  if (progress.equal === null) console.log('the new tables are in place');
  else
    console.log(progress.equal ? `all ${progress.views} views answer the same` : `${progress.different} of ${progress.views} views differ`);
}
