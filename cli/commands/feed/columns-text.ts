import { padEnd, padStart, visible, widthOf } from '../../render/terminal-text.ts';

/** Lines of cells as a table: the first column to the left, numbers to the right. */
export function tableText(head: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string[] {
  const lines = [
    head,
    ...rows.map((row) => row.map((cell) => (cell === null ? '–' : typeof cell === 'number' ? numberText(cell) : visible(cell)))),
  ];
  const isNumber = head.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number' || row[i] === null));
  const widths = head.map((_, i) => Math.max(...lines.map((line) => widthOf(line[i] as string))));
  return lines.map((line) =>
    line
      .map((cell, i) => (isNumber[i] === true ? padStart(cell, widths[i] as number) : padEnd(cell, widths[i] as number)))
      .join('  ')
      .trimEnd(),
  );
}

/** Whole numbers as they are, others with at most four places. */
export function numberText(value: number): string {
  if (Number.isInteger(value) || !Number.isFinite(value)) return String(value);
  return String(Math.round(value * 10_000) / 10_000);
}

/** A time of the log for people. */
export function timeText(micros: number): string {
  return `${new Date(micros / 1000).toISOString().replace('T', ' ').slice(0, 19)} UTC`;
}
