/** `tapedeck replay …`: what was recorded, again. */
import { Command } from 'commander';
import type { Config } from '../../config.ts';
import { serveCommand } from './serve.ts';

export function replayCommand(config: Config): Command {
  return new Command('replay').addCommand(serveCommand(config));
}
