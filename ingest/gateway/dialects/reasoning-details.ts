/** `reasoning_details` (OpenRouter, MiniMax) come in pieces: consecutive pieces of one entry are joined. */
import type { Json, JsonObject } from './dialect.ts';
import { isObject, textOf, wordOf } from './json.ts';

const TEXT_FIELD: Readonly<Record<string, string>> = { 'reasoning.text': 'text', 'reasoning.summary': 'summary' };
const SAME = ['id', 'index', 'format'] as const;

/** Adds the pieces of one chunk to `entries`, in place; the first `closed` entries take none. Pieces of other types are entries of their own. */
export function addDetails(entries: JsonObject[], pieces: readonly Json[], closed: number): void {
  for (const piece of pieces) {
    if (!isObject(piece)) continue;
    const last = entries.length > closed ? entries.at(-1) : undefined;
    const field = TEXT_FIELD[wordOf(piece['type'])];
    if (last !== undefined && field !== undefined && continues(last, piece)) entries[entries.length - 1] = joined(last, piece, field);
    else entries.push(piece);
  }
}

function continues(last: JsonObject, piece: JsonObject): boolean {
  if (last['type'] !== piece['type']) return false;
  return SAME.every((key) => (last[key] ?? null) === null || (piece[key] ?? null) === null || last[key] === piece[key]);
}

function joined(last: JsonObject, piece: JsonObject, field: string): JsonObject {
  const text = (textOf(last[field]) ?? '') + (textOf(piece[field]) ?? '');
  const said = Object.fromEntries(Object.entries(piece).filter(([, value]) => value !== null));
  return { ...last, ...said, [field]: text };
}
