import { Command } from 'commander';
import type { AuditReport } from '../../store/columns/audit/audit.ts';
import type { ProjectorState } from '../../store/columns/projector/state.ts';
import type { Config } from '../config.ts';
import { requestJson } from '../server-request.ts';

type Answer = AuditReport & { readonly projector: ProjectorState | null };

/** `tapedeck audit`: exit code 0 when every offset is explained, 1 when anything is not. */
export function auditCommand(config: Config): Command {
  return new Command()
    .option('--url <url>', 'server to ask', config.url)
    .option('--json', 'as JSON')
    .action(async (options: { url: string; json?: boolean }) => {
      const report = await requestJson<Answer>(options.url, '/v1/audit');
      console.log(options.json === true ? JSON.stringify(report, null, 2) : auditText(report));
      if (!report.ok) process.exitCode = 1;
    });
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
      : `everything so far is accounted for; ${report.lag} events are on their way`
    : 'NOT everything is explained:';
  return [...table, '', ...unfinished, ...waiting, verdict, ...wrong].join('\n');
}
