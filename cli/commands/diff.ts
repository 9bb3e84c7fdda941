/** `tapedeck diff <rollout> <rollout>`: two rollouts of one task side by side. */
import { Command, InvalidArgumentError } from 'commander';
import { isTapedeckError } from '../../base/errors.ts';
import type { DiffAnswer } from '../../query/analytics/diff/diff-answer.ts';
import { askServer } from '../render/ask-server.ts';
import { parseAnswer } from '../render/parse-answer.ts';
import { terminalOf, tolerateClosedPipe, write } from '../render/output.ts';
import { renderDiff } from '../render/rollout-diff.ts';
import { renderError } from '../render/server-error.ts';

type Options = {
  readonly url: string;
  readonly project?: string;
  readonly runA?: string;
  readonly runB?: string;
  readonly traceA?: string;
  readonly traceB?: string;
  readonly limit?: number;
  readonly asOf?: string;
  readonly json?: boolean;
};

const PASSED_ON = ['project', 'runA', 'runB', 'traceA', 'traceB', 'limit', 'asOf'] as const;

/** Exit codes: 0 the rollouts were compared (whether they differ or not), 1 they could not be. */
export function diffCommand(config: { readonly url: string }): Command {
  return new Command('diff')
    .argument('<a>', 'id of the first rollout')
    .argument('<b>', 'id of the second rollout')
    .option('--url <url>', 'server to ask', config.url)
    .option('--project <id>', 'project of the rollouts')
    .option('--run-a <id>', 'run of the first, when several runs use its id')
    .option('--run-b <id>', 'run of the second')
    .option('--trace-a <id>', 'trace of the first to follow (default: that of the agent that is trained and began first)')
    .option('--trace-b <id>', 'trace of the second')
    .option('--limit <n>', 'messages to show from the first difference on', wholeNumber)
    .option('--as-of <position>', 'log position or time to answer for')
    .option('--json', 'the answer of the server as it is')
    .action(async (a: string, b: string, options: Options) => {
      tolerateClosedPipe(process.stdout);
      try {
        await compare(a, b, options);
      } catch (error) {
        if (!isTapedeckError(error)) throw error;
        for (const line of renderError(error, terminalOf(process.stderr).paint)) process.stderr.write(`${line}\n`);
        process.exitCode = 1;
      }
    });
}

function wholeNumber(given: string): number {
  if (!/^\d{1,4}$/.test(given)) throw new InvalidArgumentError('must be a whole number');
  return Number(given);
}

async function compare(a: string, b: string, options: Options): Promise<void> {
  const passed = PASSED_ON.flatMap((name) => (options[name] === undefined ? [] : [[name, String(options[name])] as [string, string]]));
  const query = new URLSearchParams([['a', a], ['b', b], ...passed]);
  const response = await askServer(options.url, `/v1/analytics/diff?${query.toString()}`);
  if (options.json === true) {
    await write(process.stdout, `${await response.text()}\n`);
    return;
  }
  const { columns, paint } = terminalOf(process.stdout);
  for (const line of renderDiff(parseAnswer<DiffAnswer>(await response.text()), columns, paint)) if (!(await write(process.stdout, `${line}\n`))) return;
} // prettier-ignore
