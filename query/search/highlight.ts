/** Where the terms of a search lie in a text: ranges in UTF-16 code units, and short fragments around them. */
import { formsOf, type SearchTerm } from './search-terms.ts';

export type Fragment = {
  /** Place of the fragment in the text, in UTF-16 code units. */
  readonly at: number;
  readonly text: string;
  /** Start and end of each hit inside the fragment. */
  readonly highlights: readonly (readonly [number, number])[];
};
type Range = readonly [start: number, end: number];

const MAX_HITS = 1_000;

/** All hits in order, overlapping ones joined. */
export function hitsIn(text: string, terms: readonly SearchTerm[], isExact: boolean): Range[] {
  const hits = terms.filter((term) => !term.isExcluded).flatMap((term) => (term.isPhrase ? phraseHits(text, term.text, isExact) : wordHits(text, term.text, isExact)));
  const joined: [number, number][] = [];
  for (const [start, end] of hits.toSorted((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = joined.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
} // prettier-ignore

const PART_OF_WORD = /[A-Za-z0-9\u0080-\u{10ffff}]/u;

function wordHits(text: string, word: string, isExact: boolean): Range[] {
  const forms = isExact ? [word] : formsOf(word);
  return forms.flatMap((form) => occurrences(text, form).filter(([start, end]) => !isInside(text, start, end)));
}

/** True when the range is only a part of a word. */
function isInside(text: string, start: number, end: number): boolean {
  return PART_OF_WORD.test(text.charAt(start - 1)) || PART_OF_WORD.test(text.charAt(end));
}

function phraseHits(text: string, phrase: string, isExact: boolean): Range[] {
  if (isExact) return occurrences(text, phrase);
  const lower = text.toLowerCase();
  // lower case of a few characters is longer than they are; then only what is spelled the same is shown
  return lower.length === text.length ? occurrences(lower, phrase.toLowerCase()) : occurrences(text, phrase);
}

function occurrences(text: string, part: string): Range[] {
  const found: Range[] = [];
  if (part === '') return found;
  for (let at = text.indexOf(part); at >= 0 && found.length < MAX_HITS; at = text.indexOf(part, at + part.length)) found.push([at, at + part.length]);
  return found;
} // prettier-ignore

/** At most `most` stretches of about `chars` code units, each around the first hit that no earlier one shows. */
export function fragmentsOf(text: string, hits: readonly Range[], { chars, most }: { readonly chars: number; readonly most: number }): Fragment[] {
  const fragments: Fragment[] = [];
  let shown = 0;
  for (let i = 0; i < hits.length && fragments.length < most; i++) {
    const [start, end] = hits[i] as Range;
    if (start < shown) continue;
    const from = whole(text, Math.max(shown, start - Math.floor(Math.max(0, chars - (end - start)) / 3)));
    const to = whole(text, Math.min(text.length, Math.max(end, from + chars)));
    const inside = hits.filter(([s, e]) => s >= from && e <= to).map(([s, e]) => [s - from, e - from] as const);
    fragments.push({ at: from, text: text.slice(from, to), highlights: inside });
    shown = to;
  }
  return fragments;
} // prettier-ignore

/** A place that does not split a surrogate pair. */
function whole(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff && at > 0 ? at - 1 : at;
}
