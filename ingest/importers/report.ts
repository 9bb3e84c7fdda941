/** What an import read, sent and could not use. Problems are kept up to a limit, counted without one. */
import type { Format } from './recognise.ts';

export type Issue = {
  readonly path: string;
  readonly line: number | null;
  readonly field?: string;
  readonly code: string;
  readonly message: string;
};
export type WarningCount = {
  readonly field: string;
  readonly message: string;
  readonly path: string;
  readonly firstLine: number;
  count: number;
};

export type FileReport = {
  readonly path: string;
  readonly format: Format;
  /** Lines that hold something. */
  lines: number;
  imported: number;
  failed: number;
  /** 1 when the last line was cut off, as a killed writer leaves it. */
  torn: number;
  events: number;
};

export type ImportReport = {
  readonly files: FileReport[];
  /** Files that were named or found but hold nothing to import, with the reason. */
  readonly skipped: { readonly path: string; readonly reason: string }[];
  /** Lines, files and events that were not imported. */
  readonly issues: Issue[];
  issueCount: number;
  /** What was imported with something kept aside; counted by field and message. */
  readonly warnings: WarningCount[];
  readonly events: Record<string, number>;
  sent: number;
  /** Durable in the log; events that an earlier import sent are among them, since repeats are recognised when they are stored. */
  accepted: number;
  /** Events that stood twice in one request. */
  duplicates: number;
  rejected: number;
  interrupted: boolean;
};

/** More issues than this are counted only. */
export const MAX_ISSUES = 1000;
const MAX_WARNINGS = 1000;

export function emptyReport(): ImportReport {
  return {
    files: [], skipped: [], issues: [], issueCount: 0, warnings: [], events: {}, sent: 0, accepted: 0, duplicates: 0, rejected: 0, interrupted: false,
  }; // prettier-ignore
}

export function addIssue(report: ImportReport, issue: Issue): void {
  report.issueCount++;
  if (report.issues.length < MAX_ISSUES) report.issues.push(issue);
}

export function addWarning(report: ImportReport, field: string, message: string, path: string, line: number): void {
  const known = report.warnings.find((w) => w.field === field && w.message === message && w.path === path);
  if (known !== undefined) known.count++;
  else if (report.warnings.length < MAX_WARNINGS) report.warnings.push({ field, message, path, firstLine: line, count: 1 });
}

/** 0: everything was imported. 2: something was not (a torn last line is no loss: its episode was never finished). 1: nothing was, or it was broken off. */
export function exitCodeOf(report: ImportReport): 0 | 1 | 2 {
  const imported = report.files.reduce((sum, file) => sum + file.imported, 0);
  const lines = report.files.reduce((sum, file) => sum + file.lines, 0);
  if (report.interrupted || (imported === 0 && (lines > 0 || report.files.length === 0))) return 1;
  return report.issueCount > 0 || report.rejected > 0 || report.skipped.length > 0 ? 2 : 0;
}

const RECORDS = {
  'verifiers-v1': 'episodes',
  'verifiers-v0': 'rollouts',
  'verifiers-v0-page': 'rollouts',
  atif: 'trajectories',
} as const satisfies Record<Format, string>;

/** The report for people. */
export function reportText(report: ImportReport): string {
  const lines: string[] = [];
  for (const file of report.files) {
    const parts = [`${file.imported} of ${file.lines} ${RECORDS[file.format]}`, `${file.events} events`];
    if (file.torn > 0) parts.push('the last line was cut off (its writer was stopped) and left out');
    lines.push(`${file.path}: ${file.format}, ${parts.join(', ')}`);
  }
  for (const { path, reason } of report.skipped) lines.push(`${path}: skipped: ${reason}`);
  if (report.warnings.length > 0) lines.push('kept in extra or defaulted:');
  for (const w of report.warnings)
    lines.push(`  ${w.path}:${w.firstLine} ${w.field}: ${w.message}${w.count > 1 ? ` (${w.count} times)` : ''}`);
  if (report.issueCount > 0) lines.push('not imported:');
  for (const issue of report.issues) {
    const at = issue.line === null ? issue.path : `${issue.path}:${issue.line}`;
    lines.push(`  ${at}${issue.field === undefined ? '' : ` ${issue.field}`}: ${issue.message} (${issue.code})`);
  }
  if (report.issueCount > report.issues.length) lines.push(`  and ${report.issueCount - report.issues.length} more`);
  const kinds = Object.entries(report.events).map(([type, count]) => `${count} ${type}`);
  const twice = report.duplicates > 0 ? `, ${report.duplicates} twice in one request` : '';
  lines.push(`${report.sent} events sent: ${report.accepted} in the log${twice}, ${report.rejected} refused`);
  if (kinds.length > 0) lines.push(`  ${kinds.join(', ')}`);
  // the edge keeps no ids: only the projector can tell what was there before
  if (report.accepted > 0) lines.push('  what was there before is recognised by its ids and counts once: npx tapedeck audit');
  if (report.interrupted) lines.push('stopped before the end: import the same files again to go on; nothing is stored twice');
  return `${lines.join('\n')}\n`;
}
