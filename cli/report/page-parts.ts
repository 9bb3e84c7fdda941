/** Pieces of the page that sections share. */
import { element, escapeText } from './charts/markup.ts';

/** A cell is text; `[text, class]` gives it a class. */
export type Cell = string | readonly [string, string];

export function htmlTable(caption: string, head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return '';
  const cell = (value: Cell): string => (typeof value === 'string' ? element('td', {}, escapeText(value)) : element('td', { class: value[1] }, escapeText(value[0])));
  const body = rows.map((cells) => element('tr', {}, ...cells.map(cell)));
  const titles = head.map((name) => element('th', { scope: 'col' }, escapeText(name)));
  const table = element('table', { 'aria-label': caption }, element('thead', {}, element('tr', {}, ...titles)), element('tbody', {}, ...body));
  return element('div', { class: 'scroll' }, table);
} // prettier-ignore

export function section(title: string, about: string, ...content: readonly string[]): string {
  const kept = content.filter((part) => part !== '');
  if (kept.length === 0) return '';
  return element(
    'section',
    {},
    element('h2', {}, escapeText(title)),
    about === '' ? '' : element('p', { class: 'sub' }, escapeText(about)),
    ...kept,
  );
}

export function figure(caption: string, drawing: string): string {
  return element('figure', {}, drawing, caption === '' ? '' : element('figcaption', {}, escapeText(caption)));
}

export function pair(...content: readonly string[]): string {
  return element('div', { class: 'pair' }, ...content.map((part) => element('div', {}, part)));
}

export function legend(entries: readonly (readonly [name: string, tone: number])[]): string {
  const items = entries.map(([name, tone]) =>
    element('li', {}, element('span', { class: `key tone${tone}`, 'aria-hidden': 'true' }), ` ${escapeText(name)}`),
  );
  return element('ul', { class: 'legend' }, ...items);
}

export function card(what: string, value: string, more: string): string {
  return element('div', { class: 'card' }, ...[['what', what], ['value', value], ['more', more]].map(([kind, text]) => element('div', { class: kind as string }, escapeText(text as string)))); // prettier-ignore
}

/** The rest behind a click. */
export function folded(summary: string, content: string): string {
  return content === '' ? '' : element('details', {}, element('summary', {}, escapeText(summary)), content);
}
