/** JSON as a Python engine writes it. */
const MARK = '\u{e000}not-a-number:';

export type WriteJson = (value: unknown) => string;

export const plainJson: WriteJson = JSON.stringify;

/** With NaN and the infinities bare, which is no JSON. Several times slower: only where there can be any. */
export const pythonJson: WriteJson = (value) => {
  const text = JSON.stringify(value, (_, each: unknown) => {
    if (typeof each !== 'number' || Number.isFinite(each)) return each;
    return MARK + (Number.isNaN(each) ? 'NaN' : each > 0 ? 'Infinity' : '-Infinity');
  });
  return text.replaceAll(new RegExp(`"${MARK}([^"]+)"`, 'g'), '$1');
};
