/** Where two requests differ: the path, the character or token, and both values. Pure. */
import { toJson } from '../../../events/codec/cbor-to-json.ts';
import { isMap } from '../../../events/fields.ts';
import { pathText, type Path } from './path.ts';

export type Difference = {
  /** `messages[2].content`. */
  readonly path: string;
  /** Inside a text or a list of token ids: the first place that differs, counted from 0 (characters are Unicode code points). Null: the whole value. */
  readonly at: { readonly unit: 'character' | 'token'; readonly index: number } | null;
  /** Both values as JSON text, long ones cut around the place (`…`); null = there is none at this path. */
  readonly recorded: string | null;
  readonly live: string | null;
};

/** A difference with the values at its path, for whoever judges it. */
export type Found = { readonly path: Path; readonly recorded: unknown; readonly live: unknown };

const SHOWN = 200;
const AROUND = 40;
const MISSING = Symbol('missing');

/** In the order of the recorded value, then what only the live one has; at most `limit`. Empty when both are equal by value. */
export function differences(recorded: unknown, live: unknown, limit: number): Found[] {
  const found: Found[] = [];
  compare(recorded, live, [], found, limit);
  return found;
}

function compare(recorded: unknown, live: unknown, path: Path, found: Found[], limit: number): void {
  if (found.length >= limit) return;
  if (Array.isArray(recorded) && Array.isArray(live)) {
    if (isTokens(recorded) && isTokens(live)) {
      if (firstOther(recorded, live) !== null) found.push({ path, recorded, live });
      return;
    }
    for (let i = 0; i < Math.max(recorded.length, live.length); i++) {
      compare(i < recorded.length ? recorded[i] : MISSING, i < live.length ? live[i] : MISSING, [...path, i], found, limit);
    }
  } else if (isMap(recorded) && isMap(live)) {
    for (const key of new Set([...Object.keys(recorded), ...Object.keys(live)])) {
      compare(
        Object.hasOwn(recorded, key) ? recorded[key] : MISSING,
        Object.hasOwn(live, key) ? live[key] : MISSING,
        [...path, key],
        found,
        limit,
      );
    }
  } else if (!Object.is(recorded, live) && !(recorded === 0 && live === 0)) found.push({ path, recorded, live });
}

function isTokens(list: readonly unknown[]): list is readonly number[] {
  return list.length > 0 && list.every((item) => typeof item === 'number');
}

/** `places`: where the texts differ, when the first character that differs is not it. */
export function described({ path, recorded, live }: Found, places: readonly [number, number] | null = null): Difference {
  if (typeof recorded === 'string' && typeof live === 'string') {
    const [at, liveAt] = places ?? firstOtherCharacter(recorded, live);
    const index = codePoints(recorded, at);
    return { path: pathText(path), at: { unit: 'character', index }, recorded: around(recorded, at), live: around(live, liveAt) };
  }
  if (Array.isArray(recorded) && Array.isArray(live) && isTokens(recorded) && isTokens(live)) {
    const index = firstOther(recorded, live) ?? 0;
    return { path: pathText(path), at: { unit: 'token', index }, recorded: tokensAround(recorded, index), live: tokensAround(live, index) };
  }
  return { path: pathText(path), at: null, recorded: shown(recorded), live: shown(live) };
}

/** `messages[0].content at character 9: recorded "…", live "…"`. */
export function differenceText({ path, at, recorded, live }: Difference): string {
  const place = at === null ? path : `${path} at ${at.unit} ${at.index}`;
  return `${place}: recorded ${recorded ?? 'nothing'}, live ${live ?? 'nothing'}`;
}

function shown(value: unknown): string | null {
  if (value === MISSING) return null;
  const text = toJson(value);
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)}…`;
}

function firstOther(a: readonly number[], b: readonly number[]): number | null {
  for (let i = 0; i < Math.max(a.length, b.length); i++) if (a[i] !== b[i]) return i;
  return null;
}

function firstOtherCharacter(a: string, b: string): [number, number] {
  let at = 0;
  while (at < a.length && at < b.length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  // not between the halves of a pair
  if (at > 0 && isHigh(a.charCodeAt(at - 1))) at--;
  return [at, at];
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function codePoints(text: string, end: number): number {
  let count = 0;
  for (let i = 0; i < end; i++) if (!(isHigh(text.charCodeAt(i)) && i + 1 < end)) count++;
  return count;
}

function around(text: string, at: number): string {
  const [from, to] = [Math.max(0, at - AROUND), Math.min(text.length, at + AROUND)];
  const piece = JSON.stringify(text.slice(from, to).toWellFormed());
  return `${from > 0 ? '…' : ''}${piece}${to < text.length ? '…' : ''}`;
}

function tokensAround(tokens: readonly number[], at: number): string {
  const [from, to] = [Math.max(0, at - 4), Math.min(tokens.length, at + 5)];
  return `${from > 0 ? '…' : ''}[${tokens.slice(from, to).join(', ')}]${to < tokens.length ? '…' : ''} of ${tokens.length}`;
}
