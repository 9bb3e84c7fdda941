/** Reports of replays as files: Markdown when the name ends in .md, JSON otherwise. */
import { writeFile } from 'node:fs/promises';
import { reportMarkdown, type ReplayReport } from '../../../query/replay/session/report.ts';

export async function writeReports(paths: readonly string[], reports: readonly ReplayReport[]): Promise<void> {
  for (const path of paths) await writeFile(path, path.endsWith('.md') ? reportsMarkdown(reports) : reportsJson(reports));
}

export function reportsMarkdown(reports: readonly ReplayReport[]): string {
  return reports.map(reportMarkdown).join('\n');
}

/** One report, or `{replays: […]}` for several. */
export function reportsJson(reports: readonly ReplayReport[]): string {
  return `${JSON.stringify(reports.length === 1 ? reports[0] : { replays: reports }, null, 2)}\n`;
}
