/** `tapedeck feed …`: trainer feeds from the command line. */
import { Command, InvalidArgumentError } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import type { Resumed } from '../../../trainer-feed/feed/resume.ts';
import type { Manifest } from '../../../trainer-feed/server/manifest.ts';
import type { Config } from '../../config.ts';
import { askServer } from '../../render/ask-server.ts';
import { terminalOf, tolerateClosedPipe, write } from '../../render/output.ts';
import { renderError } from '../../render/server-error.ts';
import { readSpec } from './read-spec.ts';
import { explainText } from './explain-text.ts';
import { exportPrimeRl } from './export-prime-rl.ts';
import { listText, statusText, type Listed } from './status-text.ts';
import { verifyFeed } from './verify-feed.ts';

type Options = { readonly url: string; readonly project: string; readonly json?: boolean };
type Ask = <T>(path: string, body?: unknown, method?: string) => Promise<T>;

export function feedCommand(config: Config): Command {
  const command = new Command();
  const sub = (name: string, about: string): Command =>
    command
      .command(name)
      .description(about)
      .option('--url <url>', 'server to ask', config.url)
      .option('--project <id>', 'tenant', config.project ?? 'default')
      .option('--json', 'the answer of the server as it is');

  sub('create <feed> <spec>', 'create a feed; <spec> is a file with its spec as JSON, - reads standard input').action(
    carried(async (options, ask, feed: string, file: string) => {
      const made = await ask<Listed & { readonly specHash: string }>('', { feed, project: options.project, spec: await readSpec(file) });
      return options.json === true ? json(made) : `feed ${made.feed} is there (spec ${made.specHash.slice(0, 12)})`;
    }),
  );
  sub('list', 'list the feeds of a project').action(
    carried(async (options, ask) => {
      const answer = await ask<{ readonly feeds: readonly Listed[] }>('');
      return options.json === true ? json(answer) : listText(answer.feeds);
    }),
  );
  sub('status <feed>', 'say where a feed stands and what it waits for').action(
    carried(async (options, ask, feed: string) => {
      const status = await ask<FeedStatus>(`/${encodeURIComponent(feed)}/status`);
      return options.json === true ? json(status) : statusText(status);
    }),
  );
  sub('explain <feed> <n>', 'print a batch: groups, rewards, advantages, what was left out and why').action(
    carried(async (options, ask, feed: string, n: string) => {
      const manifest = await ask<Manifest>(`/${encodeURIComponent(feed)}/batches/${wholeNumber(n)}/manifest`);
      return options.json === true ? json(manifest) : explainText(manifest);
    }),
  );
  sub('verify <feed> [n]', 'compute the ids of all batches up to n from their manifests, and compare')
    .option('--rows', 'read the rows of every batch too, hash them anew and compare')
    .action(
      carried<Options & { readonly rows?: boolean }>(async (options, ask, feed: string, n?: string) => {
        const path = `/${encodeURIComponent(feed)}`;
        const source = {
          url: options.url,
          project: options.project,
          feed,
          manifestOf: (at: number) => ask<Manifest>(`${path}/batches/${at}/manifest`),
          statusOf: () => ask<FeedStatus>(`${path}/status`),
          specOf: async () => (await ask<{ readonly spec: { readonly maxTimesTrained?: number } }>(path)).spec,
          clock: systemClock,
        };
        const result = await verifyFeed(source, n === undefined ? null : wholeNumber(n), options.rows === true);
        if (result.wrong !== null) process.exitCode = 1;
        return options.json === true ? json(result) : result.text;
      }),
    );
  sub('resume <feed>', 'rewind a feed to a checkpoint')
    .requiredOption('--holder <name>', 'who trains')
    .option('--to <n>', 'number of the last batch the checkpoint holds')
    .option('--batch <id>', 'its batch id')
    .option('--recut', 'let the groups of later batches back into the pool; without it the same batches are served again')
    .option('--restart', 'begin anew')
    .action(
      carried<ResumeOptions>(async (options, ask, feed: string) => {
        const checkpoint = options.to === undefined ? null : { n: wholeNumber(options.to), batchId: options.batch ?? null };
        const body = {
          holder: options.holder,
          checkpoint,
          mode: options.recut === true ? 'recut' : null,
          restart: options.restart === true,
        };
        const resumed = await ask<Resumed>(`/${encodeURIComponent(feed)}/resume`, body);
        if (options.json === true) return json(resumed);
        return `${resumed.rewound ? `rewound: timeline ${resumed.timeline}` : resumed.madeUp ? 'a lost commit was made up for' : 'nothing to rewind'}; next is step ${resumed.next}`;
      }),
    );
  exportCommand(command.command('export').description('write batches in the shape of another trainer'), config);
  sub('delete <feed>', 'end a feed for good')
    .option('--reason <text>', 'why')
    .action(
      carried<Options & { readonly reason?: string }>(async (options, ask, feed: string) => {
        const reason = options.reason === undefined ? '' : `?reason=${encodeURIComponent(options.reason)}`;
        await ask(`/${encodeURIComponent(feed)}${reason}`, undefined, 'DELETE');
        return `feed ${feed} is over; its log stays`;
      }),
    );
  return command;
}

type ExportOptions = Options & {
  readonly out: string;
  readonly from: string;
  readonly to?: string;
  readonly ranks: string;
  readonly maxTokens?: string;
  readonly padToMultiple?: string;
  readonly wait: string;
};

function exportCommand(command: Command, config: Config): void {
  command
    .command('prime-rl <feed>')
    .description("files of prime-rl's filesystem transport: DIR/rollouts/step_N/rank_R.bin, batch n is step n")
    .requiredOption('--out <dir>', "the trainer's output folder")
    .option('--from <n>', 'first batch', '1')
    .option('--to <n>', 'last batch; without it, all that are cut')
    .option('--ranks <count>', 'data-parallel ranks', '1')
    .option('--max-tokens <count>', 'tokens of a micro-batch (seq_len of the trainer); needed unless the batch is leased')
    .option('--pad-to-multiple <count>', 'each micro-batch has a multiple of this many tokens')
    .option('--wait <seconds>', 'how long a batch that is not cut yet is waited for', '60')
    .option('--url <url>', 'server to ask', config.url)
    .option('--project <id>', 'tenant', 'default')
    .option('--json', 'counts as JSON')
    .action(
      carried<ExportOptions>(async (options, _ask, feed: string) => {
        const optional = (given: string | undefined): number | null => (given === undefined ? null : wholeNumber(given));
        const exported = await exportPrimeRl(
          {
            feed,
            url: options.url,
            project: options.project,
            out: options.out,
            from: wholeNumber(options.from, 1),
            to: optional(options.to),
            ranks: wholeNumber(options.ranks, 1),
            maxTokens: optional(options.maxTokens),
            padToMultiple: optional(options.padToMultiple),
            waitSeconds: wholeNumber(options.wait),
          },
          systemClock,
        );
        if (options.json === true) return json(exported);
        const { steps, files, bytes, ended } = exported;
        return `${steps} steps in ${files} files, ${bytes} bytes, below ${options.out}/rollouts${ended ? '; the feed ends there' : ''}`;
      }),
    );
}

type ResumeOptions = Options & {
  readonly holder: string;
  readonly to?: string;
  readonly batch?: string;
  readonly recut?: boolean;
  readonly restart?: boolean;
};

/** A subcommand that asks the server and prints a text; failures are told as the server tells them. */
function carried<O extends Options>(
  work: (options: O, ask: Ask, ...args: never[]) => Promise<string>,
): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    tolerateClosedPipe(process.stdout);
    const [options] = given.slice(-2) as [O];
    const ask: Ask = async <T>(path: string, body?: unknown, method?: string): Promise<T> => {
      const separator = path.includes('?') ? '&' : '?';
      const init =
        body === undefined
          ? { method: method ?? 'GET' }
          : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
      const answer = await askServer(options.url, `/v1/feeds${path}${separator}project=${encodeURIComponent(options.project)}`, init);
      return (await answer.json()) as T;
    };
    try {
      await write(process.stdout, `${await work(options, ask, ...(given.slice(0, -2) as never[]))}\n`);
    } catch (error) {
      if (!isTapedeckError(error)) throw error;
      for (const line of renderError(error, terminalOf(process.stderr).paint)) process.stderr.write(`${line}\n`);
      process.exitCode = 1;
    }
  };
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

function wholeNumber(given: string, least = 0): number {
  if (/^\d{1,15}$/.test(given) && Number(given) >= least) return Number(given);
  throw new InvalidArgumentError(`${given} must be a whole number${least === 0 ? '' : `, at least ${least}`}`);
}
