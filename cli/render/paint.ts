/** Colours by meaning. `plain` is the identity: for files, pipes and NO_COLOR. */
export type Paint = { readonly [style in keyof typeof STYLES]: (text: string) => string };

const STYLES = {
  dim: [2, 22],
  bold: [1, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
} as const;

function paintWith(style: (text: string, on: number, off: number) => string): Paint {
  const paint: Partial<Record<keyof typeof STYLES, (text: string) => string>> = {};
  for (const name of Object.keys(STYLES) as (keyof typeof STYLES)[]) {
    const [on, off] = STYLES[name];
    paint[name] = (text) => (text === '' ? '' : style(text, on, off));
  }
  return paint as Paint;
}

export const colours: Paint = paintWith((text, on, off) => `\u001b[${on}m${text}\u001b[${off}m`);
export const plain: Paint = paintWith((text) => text);
