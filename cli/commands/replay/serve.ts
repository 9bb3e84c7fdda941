/** `tapedeck replay serve <rollout>`: an endpoint that answers from the record, for a program or until Ctrl-C. */
import { Command } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { isFaithful, reportMarkdown } from '../../../query/replay/session/report.ts';
import { createSession, type Session } from '../../../query/replay/session/session.ts';
import { startReplayServer } from '../../../query/replay/server/replay-server.ts';
import type { LiveTarget } from '../../../query/replay/server/live.ts';
import type { Config } from '../../config.ts';
import { terminalOf, write } from '../../render/output.ts';
import { carried } from './carried.ts';
import { findRollout, loadTape, type Server } from './rollout-source.ts';
import { pointingAt, runProgram } from './run-program.ts';
import { normalisersOf, timingOf, wholeNumber, withPlayOptions, type PlayOptions } from './session-options.ts';
import { mintFork } from './mint-fork.ts';
import { writeReports } from './write-report.ts';

type Options = PlayOptions & Server & { readonly run?: string; readonly port: number; readonly json?: boolean };

export function serveCommand(config: Pick<Config, 'url' | 'project'>): Command {
  const command = new Command('serve')
    .description('answer from the record of a rollout, as an OpenAI- and Anthropic-compatible server')
    .argument('<rollout>', 'id of a rollout, or of a trace in it')
    .argument('[command...]', 'program to run against it, behind --; without one it serves until Ctrl-C')
    .option('--run <id>', 'run of the rollout, when several have one of that name')
    .option('--port <n>', 'port to listen on; 0 takes a free one', wholeNumber, 0)
    .option('--url <url>', 'server to read from', config.url)
    .option('--project <id>', 'project of the rollout', config.project ?? DEFAULT_PROJECT)
    .option('--json', 'print the report as JSON');
  return withPlayOptions(command).action((id: string, program: readonly string[], options: Options) =>
    carried((signal) => serve(id, program, options, signal)),
  );
}

async function serve(id: string, program: readonly string[], options: Options, signal: AbortSignal): Promise<number> {
  const found = await findRollout(options, id, options.run);
  const tape = await loadTape(options, found, { partial: options.partial === true });
  const parent = tape.started?.parentRollout;
  if (parent != null)
    process.stderr.write(
      `${tape.rollout} is a fork: what came before it is in the record of ${parent}; to execute both, fork ${parent} again\n`,
    );
  const normalisers = await normalisersOf(options);
  const session = createSession(tape, { policy: options.policy, normalisers, liveTools: options.tools === 'live', fork: null });
  const server = await startReplayServer({
    session,
    clock: systemClock,
    timing: timingOf(options),
    port: options.port,
    live: options.policy === 'live-on-miss' ? () => liveTarget(options, session) : null,
    onFault: (error) => console.error(error),
  });
  let code: number | null = null;
  try {
    const environment = pointingAt(server.url, tape);
    if (program.length > 0) code = (await runProgram(program, environment, { quiet: true, signal })).code;
    else await untilStopped(environment, session, signal);
  } finally {
    await server.close();
  }
  const report = session.report();
  await writeReports(options.report ?? [], [report]);
  await write(process.stdout, options.json === true ? `${JSON.stringify(report, null, 2)}\n` : reportMarkdown(report));
  return (program.length === 0 || code === 0) && isFaithful(report) ? 0 : 1;
}

async function untilStopped(environment: Readonly<Record<string, string>>, { tape }: Session, signal: AbortSignal): Promise<void> {
  const { paint } = terminalOf(process.stderr);
  process.stderr.write(`${paint.dim(`${tape.calls.length} calls of rollout ${tape.rollout}; Ctrl-C ends it and prints the report`)}\n`);
  for (const name of ['OPENAI_BASE_URL', 'OPENAI_API_KEY', 'ANTHROPIC_BASE_URL', 'ANTHROPIC_API_KEY']) {
    process.stderr.write(`export ${name}=${environment[name] ?? ''}\n`);
  }
  if (tape.traces.length > 1)
    for (const { trace, agent } of tape.traces)
      process.stderr.write(`${agent ?? 'agent'}: ${environment['REPLAY_URL'] ?? ''}/t/${encodeURIComponent(trace)}/v1\n`);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Live answers are recorded: as a rollout that was forked from this one. */
async function liveTarget(options: Options, session: Session): Promise<LiveTarget> {
  const last = session.report().calls.filter(({ servedAs }) => servedAs !== null).toSorted((a, b) => (a.servedAs ?? 0) - (b.servedAs ?? 0)).at(-1); // prettier-ignore
  const at =
    last === undefined ? null : (session.tape.calls.find(({ trace, index }) => trace === last.trace && index === last.index) ?? null);
  const made = await mintFork(options, session.tape, {
    forkNode: at === null || at.node === null ? null : { trace: at.trace, index: at.node },
  });
  session.note(`live answers are recorded as rollout ${made.rollout}`);
  return { url: options.url, key: made.key, edit: (body) => body };
}
