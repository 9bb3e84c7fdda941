/** Text into HTML and SVG, escaped. */

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** What neither HTML nor XML may hold: control characters but tab and line breaks. */
const FORBIDDEN = /(?![\t\n\r])\p{Cc}/gu;

/** Forbidden characters and halves of surrogate pairs are shown as U+FFFD; all others survive. */
export function escapeText(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(FORBIDDEN, '\ufffd')
    .replaceAll(/[&<>"']/g, (c) => ESCAPES[c] as string);
}

type Attributes = Readonly<Record<string, string | number>>;

/** An element; `children` are markup already. */
export function element(name: string, attributes: Attributes = {}, ...children: readonly string[]): string {
  const list = Object.entries(attributes).map(
    ([key, value]) => ` ${key}="${escapeText(typeof value === 'number' ? short(value) : value)}"`,
  );
  return `<${name}${list.join('')}>${children.join('')}</${name}>`;
}

/** Coordinates need no more than two digits. */
function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export function svg(width: number, height: number, label: string, ...children: readonly string[]): string {
  return element('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, class: 'chart', style: `max-width:${width}px` }, element('title', {}, escapeText(label)), ...children);
} // prettier-ignore
