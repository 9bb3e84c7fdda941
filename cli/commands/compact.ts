import { Command } from 'commander';
import type { Compaction } from '../../store/columns/compact.ts';
import type { Config } from '../config.ts';
import { progressOf } from '../ndjson-answer.ts';
import { request } from '../server-request.ts';

/** `tapedeck compact`: rewrites tables that hold deleted or replaced rows; one line per table. Changes no answer. */
export function compactCommand(config: Config): Command {
  return new Command()
    .option('--url <url>', 'server to ask', config.url)
    .option('--json', 'one JSON object per table')
    .action(async (options: { url: string; json?: boolean }) => {
      let freed = 0;
      for await (const table of progressOf<Compaction>(await request(options.url, '/v1/compact', { method: 'POST' }))) {
        freed += table.bytesBefore - table.bytesAfter;
        console.log(
          options.json === true
            ? JSON.stringify(table)
            : `${table.table}: ${megabytes(table.bytesBefore)} -> ${megabytes(table.bytesAfter)}`,
        );
      }
      if (options.json !== true) console.log(`${megabytes(freed)} given back`);
    });
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
