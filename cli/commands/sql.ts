import { text } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { SQL_FORMAT_NAMES } from '../../query/sql/formats.ts';
import type { SqlFormat } from '../../query/sql/formats.ts';
import type { Config } from '../config.ts';
import { askServer } from '../render/ask-server.ts';
import { terminalOf, tolerateClosedPipe, write } from '../render/output.ts';
import { renderTable } from '../render/result-table.ts';
import type { ResultSet } from '../render/result-table.ts';
import { renderError } from '../render/server-error.ts';

type Options = {
  readonly url: string;
  readonly project?: string;
  readonly format?: SqlFormat | 'table';
  readonly json?: boolean;
  readonly param: Readonly<Record<string, string>>;
};

/** `tapedeck sql "select …"`: a table on a terminal, TSV in a pipe, or the format asked for. Without a query, or with `-`, it reads stdin. */
export function sqlCommand(config: Pick<Config, 'url' | 'project'>): Command {
  return new Command('sql')
    .argument('[query]', 'one SELECT, SHOW TABLES or DESCRIBE <view>; - or nothing reads it from stdin')
    .option('--url <url>', 'server to ask', config.url)
    .option('--project <id>', 'project to ask about', config.project)
    .addOption(
      new Option('-f, --format <format>', 'how to print (default: table on a terminal, else tsv)').choices(['table', ...SQL_FORMAT_NAMES]),
    )
    .option('--json', 'the same as --format json')
    .option('-p, --param <name=value>', 'value of {name:Type} in the query; may be repeated', collectParam, {})
    .addHelpText(
      'after',
      '\nExamples:\n  tapedeck sql "SELECT role, count() FROM nodes GROUP BY role"\n  tapedeck sql --param run=r1 "SELECT avg(reward) FROM rollouts WHERE run = {run:String}"\n  tapedeck sql --format parquet "SELECT * FROM rollouts" > rollouts.parquet',
    ) // prettier-ignore
    .action(async (query: string | undefined, options: Options) => {
      const sql = query === undefined || query === '-' ? await readQuery() : query;
      await run(sql, options);
    });
}

function collectParam(given: string, before: Readonly<Record<string, string>>): Record<string, string> {
  const at = given.indexOf('=');
  if (at <= 0) throw new InvalidArgumentError('write it as name=value');
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) };
}

async function readQuery(): Promise<string> {
  if (process.stdin.isTTY) throw new TapedeckError('usage', 'give a query: tapedeck sql "SELECT …", or pipe one in');
  return text(process.stdin);
}

async function run(query: string, options: Options): Promise<void> {
  const { isTerminal, columns, paint } = terminalOf(process.stdout);
  tolerateClosedPipe(process.stdout);
  const chosen = options.json === true ? 'json' : (options.format ?? (isTerminal ? 'table' : 'tsv'));
  const format = chosen === 'table' ? 'json' : chosen;
  if (isTerminal && (format === 'arrow' || format === 'parquet')) {
    throw new TapedeckError(
      'usage',
      `${format} is binary: send it to a file, as in tapedeck sql --format ${format} "…" > result.${format}`,
    );
  }
  try {
    const response = await askServer(options.url, '/v1/sql', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        query,
        format,
        params: options.param,
        ...(options.project === undefined ? {} : { project: options.project }),
      }),
    });
    if (chosen === 'table') {
      for (const line of renderTable((await response.json()) as ResultSet, columns, paint)) await write(process.stdout, `${line}\n`);
      return;
    }
    for await (const chunk of response.body ?? []) if (!(await write(process.stdout, chunk))) return;
  } catch (error) {
    report(error);
  }
}

/** An answer that breaks off after its first bytes has no error body: the connection ends early. */
function report(error: unknown): void {
  const known = isTapedeckError(error)
    ? error
    : new TapedeckError(
        'internal',
        'the answer broke off: what was printed is not complete (a limit of the query, or the server went away)',
      );
  for (const line of renderError(known, terminalOf(process.stderr).paint)) process.stderr.write(`${line}\n`);
  process.exitCode = 1;
}
