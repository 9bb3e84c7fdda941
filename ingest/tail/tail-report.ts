/** What a tail took and could not take, for people. */
import type { ImportReport } from '../importers/report.ts';

export function tailText(report: ImportReport): string {
  const files = report.files.filter((file) => file.lines > 0 || file.torn > 0);
  const sum = (field: 'imported' | 'failed' | 'torn'): number => files.reduce((total, file) => total + file[field], 0);
  const lines = [`${files.length} files, ${sum('imported')} episodes and rollouts`];
  if (sum('torn') > 0) lines.push(`${sum('torn')} last lines are not complete yet: the next run takes them`);
  for (const { path, reason } of report.skipped) lines.push(`${path}: skipped: ${reason}`);
  if (report.warnings.length > 0) lines.push('kept in extra or defaulted:');
  for (const w of report.warnings)
    lines.push(`  ${w.path}:${w.firstLine} ${w.field}: ${w.message}${w.count > 1 ? ` (${w.count} times)` : ''}`);
  if (report.issueCount > 0) lines.push('not taken:');
  for (const issue of report.issues) {
    const at = issue.line === null ? issue.path : `${issue.path}:${issue.line}`;
    lines.push(`  ${at}${issue.field === undefined ? '' : ` ${issue.field}`}: ${issue.message} (${issue.code})`);
  }
  if (report.issueCount > report.issues.length) lines.push(`  and ${report.issueCount - report.issues.length} more`);
  lines.push(`${report.sent} events sent: ${report.accepted} in the log, ${report.rejected} refused`);
  return `${lines.join('\n')}\n`;
}
