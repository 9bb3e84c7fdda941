import { Command } from 'commander';
import type { Config } from '../config.ts';
import { postJson, requestJson } from '../server-request.ts';

type Letter = {
  partition: number;
  offset: number;
  reason: string;
  message: string;
  type: string;
  id: string | null;
  run: string;
  rollout: string;
  bytes: number;
};

/** `tapedeck dead-letters list|show|retry`. */
export function deadLettersCommand(config: Config): Command {
  const command = new Command();
  command
    .command('list')
    .description('what could not be stored, and why')
    .option('--url <url>', 'server to ask', config.url)
    .option('--limit <n>', 'at most this many', '100')
    .option('--json', 'as JSON')
    .action(async (options: { url: string; limit: string; json?: boolean }) => {
      const { letters } = await requestJson<{ letters: Letter[] }>(
        options.url,
        `/v1/dead-letters?limit=${encodeURIComponent(options.limit)}`,
      );
      if (options.json === true) console.log(JSON.stringify(letters, null, 2));
      else if (letters.length === 0) console.log('there are no dead letters');
      else
        for (const l of letters)
          console.log(`${l.partition}/${l.offset}  ${l.reason}  ${l.type || '(unreadable)'}  ${l.bytes} bytes  ${l.message}`);
    });
  command
    .command('show <position>')
    .description('one dead letter with its bytes; position is <partition>/<offset>')
    .option('--url <url>', 'server to ask', config.url)
    .action(async (position: string, options: { url: string }) => {
      const { partition, offset } = parsePosition(position);
      console.log(JSON.stringify(await requestJson(options.url, `/v1/dead-letters/${partition}/${offset}`), null, 2));
    });
  command
    .command('retry [positions...]')
    .description('append dead letters to the log again: all, or those at <partition>/<offset>')
    .option('--url <url>', 'server to ask', config.url)
    .option('--all', 'all of them')
    .action(async (positions: string[], options: { url: string; all?: boolean }) => {
      if (positions.length === 0 && options.all !== true) command.error('name positions, or --all', { exitCode: 2 });
      const body = options.all === true ? { all: true } : { positions: positions.map(parsePosition) };
      const { retried } = await postJson<{ retried: number }>(options.url, '/v1/dead-letters/retry', body);
      console.log(`${retried} appended again`);
    });
  return command;
}

function parsePosition(text: string): { partition: number; offset: number } {
  const match = /^(\d+)\/(\d+)$/.exec(text);
  if (match === null) throw new Error(`${text} is not <partition>/<offset>`);
  return { partition: Number(match[1]), offset: Number(match[2]) };
}
