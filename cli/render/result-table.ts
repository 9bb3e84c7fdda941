import type { Paint } from './paint.ts';
import { cutTo, padEnd, padStart, visible, widthOf } from './terminal-text.ts';

/** A result in ClickHouse's JSON form: columns with types, rows as objects. */
export type ResultSet = {
  readonly meta: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly Readonly<Record<string, unknown>>[];
};

const GAP = '  ';
const MIN_COLUMN = 4;
const NUMERIC = /^(?:Nullable\(|LowCardinality\()*(?:U?Int|Float|BFloat|Decimal)/;

/** A table for people: one line per row, numbers to the right, NULL shown as such, long cells cut so that a row fits `columns`. */
export function renderTable(result: ResultSet, columns: number, paint: Paint): string[] {
  const { meta, data } = result;
  const cells = data.map((row) => meta.map(({ name }) => cellText(row[name])));
  const wanted = meta.map(({ name }, at) => Math.max(widthOf(visible(name)), ...cells.map((row) => widthOf(row[at] as string)), 1));
  const widths = shrink(wanted, columns - GAP.length * (meta.length - 1));
  const line = (texts: readonly string[], style: (text: string, at: number) => string): string =>
    texts
      .map((text, at) => {
        const width = widths[at] as number;
        const cut = cutTo(text, width);
        const isLast = at === texts.length - 1;
        return style(NUMERIC.test(meta[at]?.type ?? '') ? padStart(cut, width) : isLast ? cut : padEnd(cut, width), at);
      })
      .join(GAP);
  const head = line(meta.map(({ name }) => visible(name)), (text) => paint.bold(text)); // prettier-ignore
  const rule = paint.dim(widths.map((width) => '─'.repeat(width)).join(GAP));
  const body = cells.map((row, index) =>
    line(row, (text, at) => (data[index]?.[meta[at]?.name as string] === null ? paint.dim(text) : text)),
  );
  return [head, rule, ...body, paint.dim(`${data.length} ${data.length === 1 ? 'row' : 'rows'}`)];
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  return visible(typeof value === 'string' ? value : JSON.stringify(value));
}

/** Takes from the widest columns until the row fits. */
function shrink(wanted: readonly number[], available: number): number[] {
  const widths = [...wanted];
  let excess = widths.reduce((sum, width) => sum + width, 0) - available;
  while (excess > 0) {
    const widest = Math.max(...widths);
    if (widest <= MIN_COLUMN) break;
    const next = Math.max(MIN_COLUMN, ...widths.filter((width) => width < widest));
    const ties = widths.filter((width) => width === widest).length;
    const take = Math.min(widest - next, Math.max(1, Math.ceil(excess / ties)));
    for (let at = 0; at < widths.length; at++) if (widths[at] === widest) widths[at] = widest - take;
    excess -= take * ties;
  }
  return widths;
}
