/** `tapedeck replay fork`: a recorded rollout up to call N, and from there on a live model. The forks are rollouts of their own, as one group. */
import { Command } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import { uuidV7 } from '../../../base/uuid.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { editedBody, readEdit, type Edit } from '../../../query/replay/request/edit.ts';
import { createSession } from '../../../query/replay/session/session.ts';
import type { ReplayReport } from '../../../query/replay/session/report.ts';
import { startReplayServer } from '../../../query/replay/server/replay-server.ts';
import type { Tape } from '../../../query/replay/tape/tape.ts';
import type { Config } from '../../config.ts';
import { write } from '../../render/output.ts';
import { carried } from './carried.ts';
import { endFork, mintFork, type ForkSettings } from './mint-fork.ts';
import { findRollout, loadTape, type Server } from './rollout-source.ts';
import { pointingAt, runProgram } from './run-program.ts';
import { normalisersOf, timingOf, wholeNumber, withPlayOptions, type PlayOptions } from './session-options.ts';
import { writeReports } from './write-report.ts';

type Options = Omit<PlayOptions, 'policy'> &
  Server & {
    readonly at: number;
    readonly run?: string;
    readonly trace?: string;
    readonly number: number;
    readonly parallel: number;
    readonly model?: string;
    readonly upstream?: string;
    readonly sampling?: string;
    readonly edit?: readonly string[];
    readonly intoRun?: string;
    readonly group?: string;
    readonly json?: boolean;
  };

export type ForkResult = {
  readonly rollout: string;
  readonly trace: string;
  /** Exit code of the program; null when a signal ended it. */
  readonly code: number | null;
  readonly report: ReplayReport;
};

export function forkCommand(config: Pick<Config, 'url' | 'project'>): Command {
  const command = new Command('fork')
    .description('play a rollout up to a call, and go on with a live model')
    .argument('<rollout>', 'id of a rollout, or of a trace in it')
    .argument('<command...>', 'program to run, behind --: the harness of the rollout')
    .requiredOption('--at <n>', 'number of the first call that goes to the model, from 0', wholeNumber)
    .option('-n, --number <n>', 'how many forks', wholeNumber, 1)
    .option('--parallel <n>', 'how many run at once', wholeNumber, 4)
    .option('--trace <id>', 'whose call it is, when the rollout has several traces')
    .option('--model <name>', 'another model, for all live calls')
    .option('--upstream <name>', 'a model server of the gateway, by name')
    .option('--sampling <json>', 'sampling values for all live calls, as JSON')
    .option('--edit <path=value...>', 'a change of every live request: messages[0].content=Be brief.')
    .option('--into-run <id>', 'run of the forks (default: that of the rollout)')
    .option('--group <id>', 'their group (default: a new one)')
    .option('--run <id>', 'run of the rollout, when several have one of that name')
    .option('--url <url>', 'server to read from and whose gateway is used', config.url)
    .option('--project <id>', 'project of the rollout', config.project ?? DEFAULT_PROJECT)
    .option('--json', 'print the result as JSON');
  withPlayOptions(command, { hasPolicy: false });
  return command.action((id: string, program: readonly string[], options: Options) =>
    carried((signal) => forkAll(id, program, options, signal)),
  );
}

async function forkAll(id: string, program: readonly string[], options: Options, signal: AbortSignal): Promise<number> {
  if (options.number < 1 || options.parallel < 1) throw new TapedeckError('usage', '--number and --parallel must be at least 1');
  const edits = (options.edit ?? []).map(readEdit);
  const sampling = options.sampling === undefined ? undefined : samplingOf(options.sampling);
  const found = await findRollout(options, id, options.run);
  const tape = await loadTape(options, found, { partial: options.partial === true });
  const place = { trace: traceOf(tape, options.trace ?? found.trace), index: options.at };
  const group = {
    id: options.group ?? `${tape.rollout.slice(0, 180)}/fork-${options.at}-${uuidV7(systemClock, systemRandom)}`,
    size: options.number,
  };
  const settings: ForkSettings = {
    forkNode: forkNodeOf(tape, place),
    group,
    agent: tape.traces.find(({ trace }) => trace === place.trace)?.agent ?? null,
    ...(options.intoRun !== undefined && { run: options.intoRun }),
    ...(options.model !== undefined && { model: options.model }),
    ...(options.upstream !== undefined && { upstream: options.upstream }),
    ...(sampling !== undefined && { sampling }),
  };
  const results: ForkResult[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < options.number && !signal.aborted)
      results.push(await forkOnce({ tape, place, program, options, settings, edits, signal, number: next++ }));
  };
  await Promise.all(Array.from({ length: Math.min(options.parallel, options.number) }, lane));
  await writeReports(options.report ?? [], results.map(({ report }) => report)); // prettier-ignore
  await write(
    process.stdout,
    options.json === true
      ? `${JSON.stringify({ group: group.id, parent: tape.rollout, forks: results }, null, 2)}\n`
      : tableOf(group.id, results),
  );
  return results.every(({ code, report }) => code === 0 && report.summary.divergences === 0) ? 0 : 1;
}

type ForkInput = {
  readonly tape: Tape;
  readonly place: { readonly trace: string; readonly index: number };
  readonly program: readonly string[];
  readonly options: Options;
  readonly settings: ForkSettings;
  readonly edits: readonly Edit[];
  readonly signal: AbortSignal;
  readonly number: number;
};

async function forkOnce({ tape, place, program, options, settings, edits, signal, number }: ForkInput): Promise<ForkResult> {
  const normalisers = await normalisersOf(options);
  const session = createSession(tape, { policy: 'strict', normalisers, liveTools: options.tools === 'live', fork: place });
  const made = await mintFork(options, tape, settings);
  let ok = false;
  try {
    const live = { url: options.url, key: made.key, edit: (body: Buffer) => editedBody(body, edits) };
    const server = await startReplayServer({
      session,
      clock: systemClock,
      timing: timingOf(options),
      live: async () => live,
      onFault: (error) => console.error(error),
    });
    try {
      const environment = { ...pointingAt(server.url, tape), REPLAY_FORK: String(number), REPLAY_FORK_ROLLOUT: made.rollout };
      const { code } = await runProgram(program, environment, { quiet: true, signal });
      const report = session.report();
      ok = code === 0;
      return { rollout: made.rollout, trace: made.trace, code, report };
    } finally {
      await server.close();
    }
  } finally {
    await endFork(options, made.rollout, ok).catch((error: unknown) => {
      if (!isTapedeckError(error)) throw error;
      process.stderr.write(`rollout ${made.rollout} could not be ended: ${error.message} (${error.code})\n`);
    });
  }
}

function traceOf({ traces, rollout }: Tape, wanted: string | null): string {
  if (wanted !== null) return wanted;
  const [only, ...others] = traces;
  if (only === undefined) throw new TapedeckError('replay_unavailable', `rollout ${rollout} has no trace`);
  if (others.length > 0)
    throw new TapedeckError(
      'usage',
      `rollout ${rollout} has the traces ${traces.map(({ trace }) => trace).join(', ')}: name one with --trace`,
    );
  return only.trace;
}

/** The last node that the fork shares with its parent: what call N answered; where nothing is known of that, the answer before it. */
function forkNodeOf(
  { traces }: Tape,
  { trace, index }: { readonly trace: string; readonly index: number },
): { readonly trace: string; readonly index: number } | null {
  const of = traces.find((each) => each.trace === trace);
  const answer = of?.calls.find((call) => call.index === index)?.node ?? null;
  const node =
    answer === null
      ? (of?.calls.findLast((call) => call.index < index && call.node !== null)?.node ?? null)
      : (of?.parents.get(answer) ?? null);
  return node === null ? null : { trace, index: node };
}

function samplingOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // said below
  }
  throw new TapedeckError('usage', `--sampling must be a JSON object, like {"temperature": 0.2}`);
}

function tableOf(group: string, results: readonly ForkResult[]): string {
  const rows = results.map(
    ({ rollout, code, report: { summary } }) =>
      `| ${rollout} | ${summary.served} of ${summary.calls} | ${summary.live} | ${summary.divergences} | ${code ?? 'killed'} |`,
  );
  return [
    `group ${group}`,
    '',
    '| rollout | from the record | live calls | divergences | exit |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}
