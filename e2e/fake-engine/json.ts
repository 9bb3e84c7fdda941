/** JSON as a Python engine writes it: NaN and infinities bare, which is no JSON. */
const MARK = '\u{e000}not-a-number:';

export function toJson(value: unknown): string {
  let special = false;
  const text = JSON.stringify(value, (_, each: unknown) => {
    if (typeof each !== 'number' || Number.isFinite(each)) return each;
    special = true;
    return MARK + (Number.isNaN(each) ? 'NaN' : each > 0 ? 'Infinity' : '-Infinity');
  });
  return special ? text.replaceAll(new RegExp(`"${MARK}([^"]+)"`, 'g'), '$1') : text;
}
