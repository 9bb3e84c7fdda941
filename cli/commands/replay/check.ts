/** `tapedeck replay --check <run> -- <command>`: recent rollouts against new harness code, for CI. */
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import { isFaithful, type ReplayReport } from '../../../query/replay/session/report.ts';
import { differenceText } from '../../../query/replay/request/difference.ts';
import { createSession } from '../../../query/replay/session/session.ts';
import { startReplayServer } from '../../../query/replay/server/replay-server.ts';
import { write } from '../../render/output.ts';
import { loadTape, rowsOf, type Server } from './rollout-source.ts';
import { pointingAt, runProgram } from './run-program.ts';
import { normalisersOf, timingOf, type PlayOptions } from './session-options.ts';
import { writeReports } from './write-report.ts';

export type CheckOptions = PlayOptions & Server & { readonly check: string; readonly last: number; readonly json?: boolean };

type Checked = {
  readonly rollout: string;
  readonly code: number | null;
  /** Why it could not be replayed. */
  readonly error: string | null;
  readonly report: ReplayReport | null;
};

/** Exit code 0 when every rollout was replayed as it was recorded and the program succeeded each time; else 1. Throws `not_found` when the run has no ended rollout. */
export async function check(program: readonly string[], options: CheckOptions, signal: AbortSignal): Promise<number> {
  if (program.length === 0)
    throw new TapedeckError('usage', 'name the program to check behind --: tapedeck replay --check <run> -- <command>');
  if (options.policy === 'live-on-miss')
    throw new TapedeckError('usage', 'a check is without a model: choose another policy than live-on-miss');
  const rollouts = await recentRollouts(options);
  const checked: Checked[] = [];
  for (const rollout of rollouts) {
    if (signal.aborted) break;
    const one = await checkOne(rollout, program, options, signal);
    checked.push(one);
    if (options.json !== true) await write(process.stdout, `${lineOf(one)}\n`);
  }
  const reports = checked.flatMap(({ report }) => (report === null ? [] : [report]));
  await writeReports(options.report ?? [], reports);
  const good = checked.filter(isGood).length;
  if (options.json === true)
    await write(process.stdout, `${JSON.stringify({ run: options.check, ok: good === rollouts.length, rollouts: checked }, null, 2)}\n`);
  else await write(process.stdout, `${good} of ${rollouts.length} rollouts of run ${options.check} replay as they were recorded\n`);
  return good === rollouts.length ? 0 : 1;
}

/** Forks are left out: they begin in the middle, and their beginning is in the record of their parent. */
async function recentRollouts(options: CheckOptions): Promise<string[]> {
  const rows = await rowsOf<{ rollout: string }>(
    options,
    'SELECT rollout FROM rollouts WHERE run = {run:String} AND ended IS NOT NULL AND parent_rollout IS NULL ORDER BY started DESC, rollout LIMIT {last:UInt32}',
    { run: options.check, last: options.last },
  );
  if (rows.length === 0)
    throw new TapedeckError('not_found', `run ${options.check} has no rollout that has ended in project ${options.project}`);
  return rows.map(({ rollout }) => rollout);
}

async function checkOne(rollout: string, program: readonly string[], options: CheckOptions, signal: AbortSignal): Promise<Checked> {
  try {
    const tape = await loadTape(options, { run: options.check, rollout }, { partial: options.partial === true });
    const session = createSession(tape, {
      policy: options.policy,
      normalisers: await normalisersOf(options),
      liveTools: options.tools === 'live',
      fork: null,
    });
    const server = await startReplayServer({
      session,
      clock: systemClock,
      timing: timingOf(options),
      live: null,
      onFault: (error) => console.error(error),
    });
    try {
      const { code } = await runProgram(program, pointingAt(server.url, tape), { quiet: true, signal });
      return { rollout, code, error: null, report: session.report() };
    } finally {
      await server.close();
    }
  } catch (error) {
    if (!isTapedeckError(error) || error.code === 'usage') throw error;
    return { rollout, code: null, error: `${error.message} (${error.code})`, report: null };
  }
}

function isGood({ code, report }: Checked): boolean {
  return code === 0 && report !== null && isFaithful(report);
}

function lineOf(checked: Checked): string {
  const { rollout, code, error, report } = checked;
  if (report === null) return `FAIL ${rollout}: ${error ?? ''}`;
  const { summary, misses, calls } = report;
  const counts = `${summary.served} of ${summary.calls} calls, ${summary.drifts} drifted`;
  if (isGood(checked)) return `ok   ${rollout}: ${counts}`;
  const first = misses[0];
  const where = first?.comparedWith ? `; first at call ${first.comparedWith.index} of ${first.comparedWith.trace}` : '';
  const served = calls.find(({ difference }) => difference !== null);
  const difference = first?.difference ?? served?.difference ?? null;
  const why = difference !== null ? `${where}: ${differenceText(difference)}` : first !== undefined ? `: ${first.message}` : '';
  const ended = code === 0 ? '' : `, the program ended with ${code ?? 'a signal'}`;
  return `FAIL ${rollout}: ${counts}, ${summary.unserved} not asked for${ended}${why}`;
}
