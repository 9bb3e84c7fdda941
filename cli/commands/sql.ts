import { homedir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { SQL_FORMAT_NAMES } from '../../query/sql/formats.ts';
import type { SqlFormat } from '../../query/sql/formats.ts';
import { CATALOGUE } from '../../store/columns/views/catalogue.ts';
import type { Config } from '../config.ts';
import { askServer } from '../render/ask-server.ts';
import { terminalOf, tolerateClosedPipe, write } from '../render/output.ts';
import { renderTable } from '../render/result-table.ts';
import type { ResultSet } from '../render/result-table.ts';
import { renderError } from '../render/server-error.ts';
import { readHistory, writeHistory } from '../sql-shell/history.ts';
import { runShell } from '../sql-shell/shell.ts';

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
    .argument(
      '[query]',
      'one SELECT, SHOW TABLES or DESCRIBE <view>; - reads it from stdin; nothing, on a terminal, asks for one after the other',
    )
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
      if (query === undefined && process.stdin.isTTY && process.stdout.isTTY) return shell(options);
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

async function shell(options: Options): Promise<void> {
  const file = join(homedir(), '.tapedeck_history');
  const { paint } = terminalOf(process.stdout);
  const columnsOf = new Map(CATALOGUE.map(({ name, columns }) => [name, columns]));
  const history = await runShell({
    input: process.stdin,
    output: process.stdout,
    isTerminal: true,
    columns: () => terminalOf(process.stdout).columns,
    paint,
    clock: systemClock,
    names: { views: new Map([...columnsOf].map(([name, columns]) => [name, columns.map((column) => column.name)])) },
    meaningOf: (view, column) => columnsOf.get(view)?.find(({ name }) => name === column)?.meaning ?? '',
    history: await readHistory(file),
    ask: async (query, signal) => (await ask(query, 'json', options, signal)).json() as Promise<ResultSet>,
  });
  await writeHistory(file, history);
}

function ask(query: string, format: SqlFormat, options: Options, signal?: AbortSignal): Promise<Response> {
  const { project, param: params } = options;
  return askServer(options.url, '/v1/sql', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, format, params, ...(project === undefined ? {} : { project }) }),
    ...(signal === undefined ? {} : { signal }),
  });
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
    const response = await ask(query, format, options);
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
