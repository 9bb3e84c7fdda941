import { Command } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { AuditReport } from '../../store/columns/audit/audit.ts';
import type { ProjectorState } from '../../store/columns/projector/state.ts';
import type { Config } from '../config.ts';
import { asSeconds } from '../render/as-seconds.ts';
import { endMissing, tellMissing } from '../render/missing-line.ts';
import { requestJson } from '../server-request.ts';
import { waitUntilStored } from '../wait-until-stored.ts';
import { onInterrupt } from './interrupt.ts';

type Answer = AuditReport & { readonly projector: ProjectorState | null };

type Options = { readonly url: string; readonly json?: boolean; readonly wait?: number };

/** `tapedeck audit`: exit code 0 when all that was accepted is stored and explained, 1 when anything is unexplained, 2 when some of it is not stored yet. */
export function auditCommand(config: Config): Command {
  return new Command()
    .option('--url <url>', 'server to ask', config.url)
    .option('--wait <seconds>', 'wait until what is accepted now is stored, as long as some of it was stored in so many seconds', asSeconds)
    .option('--json', 'as JSON')
    .action(async ({ url, json, wait }: Options) => {
      if (wait !== undefined) await waiting(url, wait * 1000);
      const report = await requestJson<Answer>(url, '/v1/audit');
      console.log(json === true ? JSON.stringify(report, null, 2) : auditText(report));
      process.exitCode = report.ok ? (report.lag === 0 ? 0 : 2) : 1;
    });
}

async function waiting(url: string, patienceMs: number): Promise<void> {
  const stop = onInterrupt(systemClock);
  try {
    await waitUntilStored(url, { clock: systemClock, signal: stop.signal, patienceMs, onMissing: tellMissing });
  } catch (error) {
    // the audit says itself what is missing
    if (!isTapedeckError(error, 'not_ready')) throw error;
  } finally {
    endMissing();
    stop.done();
  }
}

/** The report for people: one line per partition, then what is wrong. */
export function auditText(report: Answer): string {
  const head = ['partition', 'first', 'end', 'stored', 'lag', 'gaps', 'kept', 'duplicate', 'conflict', 'dead', 'deleted'];
  const rows = report.partitions.map((p) => [
    `${p.topic}/${p.partition}`, p.first, p.end, p.stored, p.lag, p.gaps,
    p.byStatus.stored, p.byStatus.duplicate, p.byStatus.conflict, p.byStatus.dead, p.byStatus.deleted,
  ]); // prettier-ignore
  const lines = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, i) => Math.max(...lines.map((line) => (line[i] as string).length)));
  const table = lines.map((line) =>
    line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] as number) : cell.padStart(widths[i] as number))).join('  '),
  );
  const unfinished = report.partitions
    .filter((p) => p.unfinishedBeyond !== null)
    .map((p) => `${p.topic}/${p.partition}: a block up to ${p.unfinishedBeyond} is not finished and will be done again`);
  const waiting = report.projector?.waitingFor ? [`the projector waits for ${report.projector.waitingFor}`] : [];
  const wrong = [...report.problems, ...report.mismatches.map((m) => `  ${m.kind} ${m.id}: said ${m.said}, stored ${m.stored}`)];
  const verdict = report.ok
    ? report.lag === 0
      ? 'everything in the log is accounted for'
      : `${report.lag} events not yet stored; everything before them is accounted for`
    : 'NOT everything is explained:';
  return [...table, '', ...unfinished, ...waiting, verdict, ...wrong].join('\n');
}
