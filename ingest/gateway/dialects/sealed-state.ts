/**
 * What a harness cannot read but must send back, in the one field that its dialect has for that: the signature of a thinking block, the encrypted
 * content of a reasoning item. Holds the provider state of another dialect, or plain reasoning text that some harnesses would otherwise leave out.
 * It is not secret and not signed: it is text that the harness's own conversation holds.
 */
import type { Json, JsonObject } from './dialect.ts';
import { isList, isObject, readJson, textOf, writeJson } from './json.ts';

const MARK = 'tapedeck.state.';

export type Sealed = { readonly text: string | null; readonly state: readonly JsonObject[] };

export function sealState({ text, state }: Sealed): string {
  const value: Json = { ...(text !== null && { text }), ...(state.length > 0 && { state }) };
  return MARK + Buffer.from(writeJson(value)).toString('base64url');
}

/** Null when `sealed` is not ours. */
export function openState(sealed: Json | undefined): Sealed | null {
  if (typeof sealed !== 'string' || !sealed.startsWith(MARK)) return null;
  const read = readJson(Buffer.from(sealed.slice(MARK.length), 'base64url').toString());
  if (!read.ok || !isObject(read.value)) return null;
  const state = isList(read.value['state']) ? read.value['state'].filter(isObject) : [];
  return { text: textOf(read.value['text']), state };
}
