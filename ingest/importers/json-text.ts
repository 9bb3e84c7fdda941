/**
 * Values back to JSON text, as Python writes it: floats keep their point (600.0), NaN and the infinities are bare words, lone surrogates are escaped.
 * Written as bytes, so that no string has to hold a whole episode.
 */
import { ByteWriter } from '../../base/byte-writer.ts';
import { WholeFloat } from '../../events/codec/whole-float.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { isList, type Json, type JsonRecord } from './json-value.ts';

/** Appends `value` as UTF-8 JSON without spaces. With `sortKeys`, keys are in code unit order: one text per document. */
export function writeJson(value: Json, out: ByteWriter, options: { sortKeys?: boolean } = {}): void {
  write(value, out, options.sortKeys === true);
}

function write(value: Json, out: ByteWriter, sort: boolean): void {
  if (value === null) out.utf8('null');
  else if (typeof value === 'string') out.utf8(JSON.stringify(value));
  else if (typeof value === 'number') out.utf8(String(value));
  else if (typeof value !== 'object') out.utf8(String(value));
  else if (value instanceof WholeFloat) out.utf8(floatText(value.value));
  else if (value instanceof PackedArray) writeItems(floatsOf(value), out, sort);
  else if (isList(value)) writeItems(value, out, sort);
  else writeRecord(value as JsonRecord, out, sort);
}

function writeItems(items: readonly Json[], out: ByteWriter, sort: boolean): void {
  out.byte(0x5b);
  for (let i = 0; i < items.length; i++) {
    if (i > 0) out.byte(0x2c);
    write(items[i] as Json, out, sort);
  }
  out.byte(0x5d);
}

function writeRecord(record: JsonRecord, out: ByteWriter, sort: boolean): void {
  const keys = sort ? Object.keys(record).toSorted() : Object.keys(record);
  out.byte(0x7b);
  for (const [i, key] of keys.entries()) {
    if (i > 0) out.byte(0x2c);
    out.utf8(JSON.stringify(key));
    out.byte(0x3a);
    write(record[key] as Json, out, sort);
  }
  out.byte(0x7d);
}

/** A whole float with its point; an exponent says float by itself. */
export function floatText(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

/** Typed arrays that the importer made of float lists are lists again. */
export function floatsOf(array: PackedArray): Json[] {
  return Array.from(array.typed() as Float64Array, (value) => WholeFloat.box(value));
}
