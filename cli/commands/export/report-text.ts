/** What an export wrote and what it left out, for people. Pure. */
import type { ExportStatus, FormatInfo } from './export-job.ts';

export function formatsText(formats: readonly FormatInfo[]): string {
  const width = Math.max(...formats.map(({ name }) => name.length));
  const lines = formats.map(({ name, about, of }) => `${name.padEnd(width)}  ${about}${of === null ? ' (of any resource: --of)' : ''}`);
  return `${lines.join('\n')}\n`;
}

export function reportText({ format, rows, bytes, report, beside }: ExportStatus, out: string): string {
  const counted = rows === null ? '' : `${rows} ${rows === 1 ? 'line' : 'lines'}, `;
  const lines = [`${counted}${bytes} bytes${out === '-' ? '' : ` written to ${out}`}`];
  if (out === '-') for (const { name } of beside) lines.push(`${name} is left out: it is written beside a file only (-o)`);
  else for (const { name, bytes: size } of beside) lines.push(`${name}, ${size} bytes, beside it`);
  const never: string[] = [];
  for (const [what, count] of Object.entries(report?.left ?? {})) {
    if (count === null) never.push(what);
    else if (count > 0) lines.push(`${count} ${what}: no place in ${format}`);
  }
  if (never.length > 0) lines.push(`never in ${format}: ${never.join('; ')}`);
  for (const name of report?.incomplete ?? []) lines.push(`${name} is left out as a whole`);
  return `${lines.join('\n')}\n`;
}
