/** Estimates with their intervals, one below the other: environments, or differences against a baseline. */
import { element, escapeText, svg } from './markup.ts';
import { domainOf, linearScale } from './scale.ts';

export type IntervalRow = {
  readonly name: string;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly tone: 1 | 2 | 3 | 4;
  /** Shown at the right. */
  readonly text: string;
};

export type IntervalChart = {
  readonly label: string;
  readonly rows: readonly IntervalRow[];
  readonly domain?: readonly [number, number];
  /** A line to compare with: 0 for differences. */
  readonly reference?: number;
  readonly format: (value: number) => string;
};

const WIDTH = 760;
const ROW = 30;
const TOP = 10;
const NAME_WIDTH = 150;
const TEXT_WIDTH = 210;
const NAME_CHARS = 22;

export function intervalChart({ label, rows, domain, reference, format }: IntervalChart): string {
  const height = TOP + rows.length * ROW + 28;
  const limits = domain ?? domainOf(rows.flatMap(({ value, low, high }) => [value, low, high]), reference === undefined ? [] : [reference]);
  const x = linearScale(limits, [NAME_WIDTH + 10, WIDTH - TEXT_WIDTH - 10], 5);
  const bottom = TOP + rows.length * ROW;
  const grid = x.ticks.map((tick) =>
    element('line', { class: 'grid', x1: x.at(tick), x2: x.at(tick), y1: TOP, y2: bottom }) + element('text', { class: 'tick', x: x.at(tick), y: bottom + 18, 'text-anchor': 'middle' }, escapeText(format(tick))),
  );
  const line = reference === undefined ? '' : element('line', { class: 'axis strong', x1: x.at(reference), x2: x.at(reference), y1: TOP, y2: bottom });
  return svg(WIDTH, height, label, ...grid, line, ...rows.map((row, place) => drawRow(row, TOP + place * ROW + ROW / 2, (value) => x.at(value))));
} // prettier-ignore

function drawRow({ name, value, low, high, tone, text }: IntervalRow, y: number, xOf: (value: number) => number): string {
  const shown = name.length > NAME_CHARS ? `${name.slice(0, NAME_CHARS - 1)}…` : name;
  const parts = [element('text', { class: 'label', x: NAME_WIDTH, y: y + 4, 'text-anchor': 'end' }, element('title', {}, escapeText(name)), escapeText(shown))];
  if (low !== null && high !== null && Number.isFinite(low) && Number.isFinite(high)) {
    parts.push(element('line', { class: `whisker tone${tone}`, x1: xOf(low), x2: xOf(high), y1: y, y2: y }));
    for (const end of [low, high]) parts.push(element('line', { class: `whisker tone${tone}`, x1: xOf(end), x2: xOf(end), y1: y - 4, y2: y + 4 }));
  }
  if (value !== null && Number.isFinite(value)) parts.push(element('circle', { class: `dot tone${tone}`, cx: xOf(value), cy: y, r: 5 }));
  parts.push(element('text', { class: 'label', x: WIDTH - TEXT_WIDTH + 6, y: y + 4 }, escapeText(text)));
  return parts.join('');
} // prettier-ignore
