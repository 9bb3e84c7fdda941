/** Lines with bands: pass@k over k, rewards over steps. */
import { element, escapeText, svg } from './markup.ts';
import { binaryScale, domainOf, linearScale } from './scale.ts';

export type LinePoint = { readonly x: number; readonly y: number | null; readonly low?: number | null; readonly high?: number | null };
/** `tone` is 1 to 4: a colour of the page's palette, with a dash of its own. */
export type LineSeries = { readonly name: string; readonly tone: 1 | 2 | 3 | 4; readonly points: readonly LinePoint[] };

export type LineChart = {
  readonly label: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly LineSeries[];
  readonly xScale?: 'linear' | 'binary';
  /** Fixed limits of the y axis; absent: what the data need. */
  readonly y?: readonly [number, number];
  readonly format: (value: number) => string;
};

const WIDTH = 560;
const HEIGHT = 260;
const BOX = { left: 66, right: WIDTH - 14, top: 14, bottom: HEIGHT - 40 };
/** More points than this are drawn without dots. */
const MAX_DOTS = 60;

export function lineChart(chart: LineChart): string {
  const points = chart.series.flatMap((series) => series.points);
  const xDomain = domainOf(points.map(({ x }) => x));
  const yDomain = chart.y ?? domainOf(points.flatMap(({ y, low, high }) => [y, low ?? null, high ?? null]));
  const isBinary = chart.xScale === 'binary' && points.every(({ x }) => x > 0);
  const x = isBinary ? binaryScale([Math.max(1, xDomain[0]), Math.max(2, xDomain[1])], [BOX.left + 8, BOX.right - 8]) : linearScale(xDomain, [BOX.left + 8, BOX.right - 8], 8);
  const y = linearScale(yDomain, [BOX.bottom, BOX.top]);
  const grid = y.ticks.map((tick) =>
    element('line', { class: 'grid', x1: BOX.left, x2: BOX.right, y1: y.at(tick), y2: y.at(tick) }) + element('text', { class: 'tick', x: BOX.left - 8, y: y.at(tick) + 4, 'text-anchor': 'end' }, escapeText(chart.format(tick))),
  );
  const below = x.ticks.map((tick) => element('text', { class: 'tick', x: x.at(tick), y: BOX.bottom + 18, 'text-anchor': 'middle' }, escapeText(String(tick))));
  const drawn = chart.series.map((series) => drawSeries(series, (point) => x.at(point.x), (value) => y.at(value)));
  return svg(
    WIDTH,
    HEIGHT,
    chart.label,
    ...grid,
    element('line', { class: 'axis', x1: BOX.left, x2: BOX.right, y1: BOX.bottom, y2: BOX.bottom }),
    ...below,
    element('text', { class: 'name', x: (BOX.left + BOX.right) / 2, y: HEIGHT - 4, 'text-anchor': 'middle' }, escapeText(chart.xLabel)),
    element('text', { class: 'name', x: 12, y: (BOX.top + BOX.bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(BOX.top + BOX.bottom) / 2})` }, escapeText(chart.yLabel)),
    ...drawn,
  );
} // prettier-ignore

function drawSeries({ tone, points }: LineSeries, xOf: (point: LinePoint) => number, yOf: (value: number) => number): string {
  const known = points.filter((point): point is LinePoint & { y: number } => point.y !== null && Number.isFinite(point.y));
  const place = (point: LinePoint, value: number): string => `${round(xOf(point))},${round(yOf(value))}`;
  const banded = known.filter((point) => Number.isFinite(point.low) && Number.isFinite(point.high));
  const upper = banded.map((point) => place(point, point.high as number));
  const lower = banded.toReversed().map((point) => place(point, point.low as number));
  const [only] = banded;
  const band =
    banded.length > 1 ? element('polygon', { class: `band tone${tone}`, points: [...upper, ...lower].join(' ') })
    : only === undefined ? '' : element('line', { class: `whisker tone${tone}`, x1: xOf(only), x2: xOf(only), y1: yOf(only.low as number), y2: yOf(only.high as number) });
  const line = known.length > 1 ? element('polyline', { class: `line tone${tone}`, points: known.map((point) => place(point, point.y)).join(' ') }) : '';
  const dots = known.length > MAX_DOTS ? [] : known.map((point) => element('circle', { class: `dot tone${tone}`, cx: xOf(point), cy: yOf(point.y), r: 3 }));
  return band + line + dots.join('');
} // prettier-ignore

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
