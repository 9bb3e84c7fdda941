/** `tapedeck replay …`: what was recorded, again. */
import { Command } from 'commander';
import { TapedeckError } from '../../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import type { Config } from '../../config.ts';
import { carried } from './carried.ts';
import { check, type CheckOptions } from './check.ts';
import { eventsCommand } from './events.ts';
import { feedReplayCommand } from './feed.ts';
import { forkCommand } from './fork.ts';
import { rescoreCommand } from './rescore.ts';
import { serveCommand } from './serve.ts';
import { wholeNumber, withPlayOptions } from './session-options.ts';

export function replayCommand(config: Config): Command {
  // options behind a subcommand are its own
  const command = new Command('replay')
    .enablePositionalOptions()
    .argument('[command...]', 'with --check: the program to run, behind --')
    .option('--check <run>', 'replay recent rollouts of a run against a program, and fail when they diverge')
    .option('--last <n>', 'how many rollouts, newest first', wholeNumber, 10)
    .option('--url <url>', 'server to read from', config.url)
    .option('--project <id>', 'project of the run', config.project ?? DEFAULT_PROJECT)
    .option('--json', 'print the result as JSON');
  withPlayOptions(command).action((program: readonly string[], options: Omit<CheckOptions, 'check'> & { readonly check?: string }) =>
    carried(async (signal) => {
      const { check: run } = options;
      if (run === undefined)
        throw new TapedeckError('usage', 'name what to replay: --check <run>, or one of events, serve, fork, rescore, feed (see --help)');
      return check(program, { ...options, check: run }, signal);
    }),
  );
  for (const child of [eventsCommand, serveCommand, forkCommand, rescoreCommand, feedReplayCommand]) command.addCommand(child(config));
  return command;
}
