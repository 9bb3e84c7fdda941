/** `tapedeck report <run>`: eval statistics as Markdown on stdout and as one HTML file, with an exit code for CI. */
import { writeFile } from 'node:fs/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { isVote, judge, kOf, parseGate, type Gate } from '../report/gate.ts';
import { fetchReport, type ReportData } from '../report/report-data.ts';
import { reportHtml } from '../report/report-html.ts';
import { reportMarkdown } from '../report/report-markdown.ts';
import { shellWord } from '../report/words.ts';
import { terminalOf, tolerateClosedPipe, write } from '../render/output.ts';
import { renderError } from '../render/server-error.ts';

type Options = {
  readonly url: string;
  readonly policyVersion?: number;
  readonly against?: string;
  readonly againstVersion?: number;
  readonly html?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly failIf: readonly Gate[];
} & Readonly<Partial<Record<SharedName, string>>>;

/** Options that go to the server as they are. */
const SHARED = ['project', 'env', 'reward', 'answer', 'chooseBy', 'threshold', 'missing', 'over', 'confidence', 'seed', 'asOf'] as const;
type SharedName = (typeof SHARED)[number];

const GATE_FAILED = 1;
const NO_REPORT = 2;

/** Exit codes: 0 the report was made and no condition held, 1 a condition of --fail-if held, 2 there is no report (wrong use, no such run, no server). */
export function reportCommand(config: { readonly url: string }): Command {
  return new Command('report')
    .argument('<run>', 'id of the run')
    .option('--policy-version <n>', 'only rollouts that began under this version', wholeNumber)
    .option('--against <run>', 'run to compare with, on the common tasks')
    .option('--against-version <n>', 'policy version to compare with (of the same run, without --against)', wholeNumber)
    .option('--html <file>', 'also write one HTML file that opens offline')
    .option('--json', 'print the answers of the server instead of Markdown')
    .option('--quiet', 'print only what failed')
    .addOption(new Option('--fail-if <condition>', 'exit 1 when it holds; may be repeated').argParser(collectGate).default([] as Gate[], 'none'))
    .option('--url <url>', 'server to ask', config.url)
    .option('--project <id>', 'project of the run')
    .option('--env <id>', 'only this environment')
    .option('--reward <name>', 'reward to judge by (default: the sum of score times weight)')
    .option('--answer <metric>', 'metric that holds the answer of a rollout: adds majority votes (maj@k)')
    .option('--choose-by <reward>', 'reward that best@k chooses by (default: the one it is judged by)')
    .option('--threshold <score>', 'a score of at least this solves a task (default: 1)')
    .addOption(new Option('--missing <policy>', 'what rollouts without a score count as').choices(['excluded', 'zero']))
    .addOption(new Option('--over <what>', 'mean over tasks or over environments').choices(['tasks', 'envs']))
    .option('--confidence <share>', 'confidence of the intervals (default: 0.95)')
    .option('--seed <n>', 'seed of the bootstrap and of sampled permutations (default: 0)')
    .option('--as-of <position>', 'log position or time to answer for (default: now)')
    .addHelpText(
      'after',
      '\nConditions: "pass@1 < 0.8", "pass^4 <= 50%", "avg < 0.3", "maj@8 < 0.9", "unscored > 5%", "significantly worse than baseline", "pass@4 significantly worse than baseline".\n' +
        'Exit codes: 0 no condition held, 1 one did, 2 there is no report.\n\n' +
        'Examples:\n  tapedeck report eval-42 --html report.html\n  tapedeck report eval-42 --against eval-41 --fail-if "significantly worse than baseline"\n' +
        '  tapedeck report train-7 --policy-version 300 --against-version 200',
    )
    .action(async (run: string, options: Options) => {
      tolerateClosedPipe(process.stdout);
      try {
        process.exitCode = await report(run, options);
      } catch (error) {
        if (!isTapedeckError(error)) throw error;
        for (const line of renderError(error, terminalOf(process.stderr).paint)) process.stderr.write(`${line}\n`);
        process.exitCode = NO_REPORT;
      }
    });
} // prettier-ignore

function wholeNumber(given: string): number {
  if (!/^\d{1,15}$/.test(given)) throw new InvalidArgumentError('must be a whole number');
  return Number(given);
}

function collectGate(given: string, before: readonly Gate[]): readonly Gate[] {
  const parsed = parseGate(given);
  if (!parsed.ok) throw new InvalidArgumentError(parsed.error.message);
  return [...before, parsed.value];
}

async function report(run: string, options: Options): Promise<number> {
  const hasBaseline = options.against !== undefined || options.againstVersion !== undefined;
  if (!hasBaseline && options.failIf.some(({ kind }) => kind === 'worse')) {
    throw new TapedeckError('usage', 'there is no baseline: name it with --against <run> or --against-version <n>');
  }
  if (options.answer === undefined && options.failIf.some(isVote)) {
    throw new TapedeckError('usage', 'a vote needs the metric that holds the answers: name it with --answer <metric>');
  }
  const shared = Object.fromEntries(SHARED.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])));
  const data = await fetchReport({
    url: options.url,
    run,
    policyVersion: options.policyVersion,
    against: options.against,
    againstVersion: options.againstVersion,
    shared,
    ks: options.failIf.filter(({ kind }) => kind === 'limit').flatMap((gate) => kOf(gate) ?? []),
    comparedKs: options.failIf.filter(({ kind }) => kind === 'worse').flatMap((gate) => kOf(gate) ?? []),
  });
  const results = options.failIf.map((gate) => judge(gate, data.estimates, data.compare));
  const command = commandText(run, options, data);
  if (options.html !== undefined) await writeHtml(options.html, reportHtml(data, results, command));
  if (options.quiet !== true) await write(process.stdout, options.json === true ? `${jsonText(data)}\n` : reportMarkdown(data, results, command));
  const failed = results.filter((result) => result.failed);
  for (const { text, because } of failed) process.stderr.write(`failed: ${text}: ${because}\n`);
  return failed.length > 0 ? GATE_FAILED : 0;
} // prettier-ignore

async function writeHtml(file: string, html: string): Promise<void> {
  try {
    await writeFile(file, html);
  } catch (cause) {
    throw new TapedeckError('not_writable', `${file} cannot be written: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
} // prettier-ignore

function jsonText(data: ReportData): string {
  return JSON.stringify(data, (_key, value: unknown) => (typeof value === 'number' && !Number.isFinite(value) ? { $float: String(value) } : value), 2); // prettier-ignore
}

/** The command that makes the same report again, whatever is recorded later. */
function commandText(run: string, options: Options, { estimates }: ReportData): string {
  const flags: [string, string | number | undefined][] = [
    ['--policy-version', options.policyVersion],
    ['--against', options.against],
    ['--against-version', options.againstVersion],
    ...SHARED.filter((name) => name !== 'asOf').map((name): [string, string | undefined] => [
      `--${name === 'chooseBy' ? 'choose-by' : name}`,
      options[name],
    ]),
    ['--as-of', estimates.asOf.position],
  ];
  const given = flags.flatMap(([flag, value]) => (value === undefined ? [] : [flag, shellWord(String(value))]));
  return ['tapedeck report', shellWord(run), ...given].join(' ');
}
