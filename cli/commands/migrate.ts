import { Command } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import type { Config } from '../config.ts';
import { openColumns } from '../serve/columns.ts';
import { openLogger } from '../serve/open-logger.ts';

/** `tapedeck migrate`: brings the schema up to date and ends. Embedded, no server may be running on the same data folder. */
export function migrateCommand(config: Config): Command {
  return new Command().action(async () => {
    const logger = openLogger(config.logLevel, process.stderr.isTTY);
    const columns = await openColumns(config, { clock: systemClock, random: systemRandom, logger });
    try {
      await columns.opened;
      console.log(`the schema of ${config.clickhouseDatabase} is up to date`);
    } finally {
      await columns.close();
    }
  });
}
