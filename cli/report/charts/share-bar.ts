/** One bar of parts that make a whole, with a legend in words below it. */
import { element, escapeText, svg } from './markup.ts';

export type Part = { readonly name: string; readonly count: number; readonly tone: 1 | 2 | 3 | 4 | 5 };

const WIDTH = 560;
const HEIGHT = 30;

export function shareBar(label: string, parts: readonly Part[]): string {
  const total = parts.reduce((sum, { count }) => sum + count, 0);
  let left = 0;
  const drawn = parts.map(({ name, count, tone }) => {
    const width = total === 0 ? 0 : (count / total) * WIDTH;
    const share = total === 0 ? '' : `${Math.round((count / total) * 100)}%`;
    const rect = element('rect', { class: `bar tone${tone}`, x: left, y: 0, width, height: HEIGHT }, element('title', {}, escapeText(`${name}: ${count} (${share})`)));
    const text = width < 34 ? '' : element('text', { class: 'inside', x: left + width / 2, y: HEIGHT / 2 + 5, 'text-anchor': 'middle' }, share);
    left += width;
    return rect + text;
  });
  const legend = parts.map(({ name, count, tone }) => element('li', {}, element('span', { class: `key tone${tone}`, 'aria-hidden': 'true' }), ` ${escapeText(name)} `, element('b', {}, String(count))));
  return svg(WIDTH, HEIGHT, `${label}: ${parts.map(({ name, count }) => `${name} ${count}`).join(', ')}`, ...drawn) + element('ul', { class: 'legend' }, ...legend);
} // prettier-ignore
