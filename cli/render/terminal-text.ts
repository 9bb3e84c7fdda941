/** Text for a terminal: nothing in data can move the cursor, change colours or reverse the reading order, and widths are those a terminal shows. */

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\u001b': '\\e', '\0': '\\0' };

/** Controls (Cc), marks of format such as bidirectional overrides and invisible spaces (Cf but the joiners of emoji), line separators, halves of surrogate pairs. */
const UNSAFE = /\p{Cc}|(?!\u200c|\u200d|[\u{e0020}-\u{e007f}])\p{Cf}|\p{Zl}|\p{Zp}|\p{Cs}/gu;

/** Writes unsafe characters as escapes: `\n`, `\e`, `\u202e`. */
export function visible(text: string): string {
  return text.replaceAll(UNSAFE, (c) => NAMED[c] ?? `\\u${(c.codePointAt(0) as number).toString(16).padStart(4, '0')}`);
}

const SEGMENTS = new Intl.Segmenter('en', { granularity: 'grapheme' });
const ASCII = /^[\u0020-\u007e]*$/;
const WIDE =
  /^(?:[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|.*\ufe0f)/u;
const NO_WIDTH = /^\p{Mark}+$/u;

function segmentWidth(segment: string): number {
  if (NO_WIDTH.test(segment)) return 0;
  return WIDE.test(segment) || (segment.codePointAt(0) as number) >= 0x20000 ? 2 : 1;
}

/** Columns a text takes. */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const { segment } of SEGMENTS.segment(text)) width += segmentWidth(segment);
  return width;
}

/** At most `columns` wide; what was cut ends in an ellipsis. */
export function cutTo(text: string, columns: number): string {
  if (columns <= 0) return '';
  if (widthOf(text) <= columns) return text;
  let width = 0;
  let kept = '';
  for (const { segment } of SEGMENTS.segment(text)) {
    width += segmentWidth(segment);
    if (width > columns - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

export function padEnd(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)));
}

export function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - widthOf(text))) + text;
}
