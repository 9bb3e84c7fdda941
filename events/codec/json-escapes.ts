/** `{"$float":…}`, `{"$bytes":…}`, `{"$array":…}`: what JSON lacks, and the escape of real objects that look like it. */
import { DTYPES, type Dtype } from '../packed-array.ts';
import { isMap } from '../fields.ts';
import { decodeCbor } from './cbor-decode.ts';
import { cursorOver, MAJOR, readHead } from './cbor-head.ts';
import { decodeBase64 } from './json-streams.ts';
import { ESCAPE_KEY } from './stream-places.ts';

export type Meaning =
  | { kind: 'float'; value: number }
  | { kind: 'bytes'; bytes: Buffer }
  | { kind: 'array'; dtype: Dtype; bytes: Buffer }
  | { kind: 'key'; key: string }
  | { kind: 'wrong'; message: string };

const FLOATS: Readonly<Record<string, number>> = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity };
const DOLLAR = 0x24;

/** True when the CBOR text at `at` is a key of the escape family. */
export function isEscapeKey(cbor: Buffer, at: number): boolean {
  const c = cursorOver(cbor, at, cbor.length);
  readHead(c);
  return c.major === MAJOR.text && cbor[c.at] === DOLLAR && ESCAPE_KEY.test(cbor.toString('latin1', c.at, c.at + c.value));
}

/** What the one-entry object with its key at `keyAt` and its value at `valueAt` (to the end of `cbor`) stands for. */
export function decodeEscape(cbor: Buffer, keyAt: number, valueAt: number): Meaning {
  const key = decodeCbor(cbor, keyAt, valueAt) as string;
  if (key.startsWith('$$')) return { kind: 'key', key: key.slice(1) };
  const major = (cbor[valueAt] as number) >> 5;
  if (key === '$array') return major === MAJOR.map ? arrayOf(decodeCbor(cbor, valueAt)) : wrong('$array must hold {"dtype","data"}');
  if (major !== MAJOR.text) return wrong(`${key} must hold a string`);
  const text = decodeCbor(cbor, valueAt) as string;
  if (key === '$float') {
    const value = Object.hasOwn(FLOATS, text) ? FLOATS[text] : undefined;
    return value === undefined ? wrong('$float must be "NaN", "Infinity" or "-Infinity"') : { kind: 'float', value };
  }
  const bytes = decodeBase64(text);
  return bytes === null ? wrong('$bytes must be padded base64') : { kind: 'bytes', bytes };
}

function arrayOf(value: unknown): Meaning {
  if (!isMap(value) || Object.keys(value).length !== 2) return wrong('$array must hold "dtype" and "data" and nothing else');
  const { dtype, data } = value;
  if (typeof dtype !== 'string' || !Object.hasOwn(DTYPES, dtype))
    return wrong(`the dtype of $array must be one of ${Object.keys(DTYPES).join(', ')}`);
  const bytes = typeof data === 'string' ? decodeBase64(data) : null;
  if (bytes === null) return wrong('the data of $array must be padded base64');
  if (bytes.length % DTYPES[dtype as Dtype] !== 0) return wrong(`the data of $array must be whole ${dtype} elements`);
  return { kind: 'array', dtype: dtype as Dtype, bytes };
}

function wrong(message: string): Meaning {
  return { kind: 'wrong', message };
}
