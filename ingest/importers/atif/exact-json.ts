/** Decoded event values as JSON text: whole floats keep their point, integers of 64 bits their digits. */
import { WholeFloat } from '../../../events/codec/whole-float.ts';

/** Text that is JSON already. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Keys without a value (undefined) are left out. NaN and the infinities, which JSON does not have, become strings, as in the other exports. */
export function exactJson(value: unknown): string {
  if (value instanceof JsonText) return value.text;
  if (value instanceof WholeFloat) return wholeText(value.value);
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : JSON.stringify(String(value));
  if (typeof value === 'bigint') return String(value);
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map((item) => exactJson(item)).join(',')}]`;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${exactJson(item)}`).join(',')}}`;
}

function wholeText(value: number): string {
  if (!Number.isFinite(value)) return JSON.stringify(String(value));
  const text = Object.is(value, -0) ? '-0' : String(value);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}
