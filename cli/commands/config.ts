import { Command } from 'commander';
import { describeSettings, type Config } from '../config.ts';

/** `tapedeck config`: every setting with its variable, present value, default and meaning. Secrets are never printed. */
export function configCommand(config: Config): Command {
  return new Command().option('--json', 'as JSON').action((options: { json?: boolean }) => {
    const rows = describeSettings().map(({ key, variable, fallback, about, secret }) => {
      const value = (config as Record<string, string | number | boolean | string[] | undefined>)[key];
      const shown = secret && value !== undefined && value !== '' ? '(set)' : Array.isArray(value) ? value.join(',') : (value ?? null);
      return { variable, value: shown, default: fallback, about };
    });
    if (options.json === true) console.log(JSON.stringify(rows, null, 2));
    else
      for (const row of rows)
        console.log(
          `${row.variable}=${row.value === null ? '' : String(row.value)}\n    ${row.about}${row.default === null ? '' : ` Default: ${row.default === '' ? '(empty)' : row.default}`}`,
        );
  });
}
