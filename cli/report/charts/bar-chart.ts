/** Upright bars over bins, one or several groups side by side: tasks by solve rate, rollouts by length. */
import { element, escapeText, svg } from './markup.ts';
import { linearScale } from './scale.ts';

export type Bin = { readonly name: string; readonly counts: readonly number[] };

export type BarChart = {
  readonly label: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly bins: readonly Bin[];
  /** Tone of each group of counts. */
  readonly tones: readonly (1 | 2 | 3 | 4)[];
};

const WIDTH = 560;
const HEIGHT = 240;
const BOX = { left: 66, right: WIDTH - 14, top: 20, bottom: HEIGHT - 40 };

export function barChart({ label, xLabel, yLabel, bins, tones }: BarChart): string {
  const most = Math.max(1, ...bins.flatMap(({ counts }) => counts));
  const y = linearScale([0, most], [BOX.bottom, BOX.top], 4);
  const ticks = y.ticks.filter((tick) => Number.isInteger(tick));
  const grid = ticks.map((tick) =>
    element('line', { class: 'grid', x1: BOX.left, x2: BOX.right, y1: y.at(tick), y2: y.at(tick) }) + element('text', { class: 'tick', x: BOX.left - 8, y: y.at(tick) + 4, 'text-anchor': 'end' }, String(tick)),
  );
  const slot = (BOX.right - BOX.left) / Math.max(1, bins.length);
  const every = Math.ceil(bins.length / 12);
  const drawn = bins.map(({ name, counts }, place) => {
    const left = BOX.left + place * slot;
    const width = (slot * 0.8) / counts.length;
    const bars = counts.map((count, group) =>
      element('rect', { class: `bar tone${tones[group] ?? 1}`, x: left + slot * 0.1 + group * width, y: y.at(count), width: Math.max(1, width - 1), height: BOX.bottom - y.at(count), rx: 2 }, element('title', {}, escapeText(`${name}: ${count}`))),
    );
    const text = place % every === 0 ? element('text', { class: 'tick', x: left + slot / 2, y: BOX.bottom + 18, 'text-anchor': 'middle' }, escapeText(name)) : '';
    return bars.join('') + text;
  });
  return svg(
    WIDTH,
    HEIGHT,
    label,
    ...grid,
    ...drawn,
    element('line', { class: 'axis', x1: BOX.left, x2: BOX.right, y1: BOX.bottom, y2: BOX.bottom }),
    element('text', { class: 'name', x: (BOX.left + BOX.right) / 2, y: HEIGHT - 4, 'text-anchor': 'middle' }, escapeText(xLabel)),
    element('text', { class: 'name', x: 12, y: (BOX.top + BOX.bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(BOX.top + BOX.bottom) / 2})` }, escapeText(yLabel)),
  );
} // prettier-ignore

/** Counts of values in equal bins from `low` to `high`; the last bin holds its upper edge. */
export function binned(values: readonly number[], low: number, high: number, count: number): number[] {
  const bins = Array.from({ length: count }, () => 0);
  for (const value of values) {
    const at = high === low ? 0 : Math.floor(((value - low) / (high - low)) * count);
    const place = Math.min(count - 1, Math.max(0, at));
    bins[place] = (bins[place] as number) + 1;
  }
  return bins;
}
