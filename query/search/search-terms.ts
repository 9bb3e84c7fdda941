/** What a search asks for: words that must all be there, phrases in quotes, and words behind a minus that must not. */
import { TapedeckError } from '../../base/errors.ts';
import type { Params } from '../lists/sql-params.ts';

export type SearchTerm = {
  /** As it was written. */
  readonly text: string;
  /** The words the index is asked for; empty where it cannot help: then the text itself is looked through. */
  readonly words: readonly string[];
  readonly isPhrase: boolean;
  readonly isExcluded: boolean;
};

const MAX_TERMS = 32;
const MAX_TEXT = 1_000;
/** The words of the index: runs of ASCII letters and digits and of everything beyond ASCII. */
const WORD = /[A-Za-z0-9\u0080-\u{10ffff}]+/gu;
const PART = /(-?)(?:"([^"]*)"|(\S+))/gu;

const ASCII_WORD = /^[A-Za-z0-9]+$/;

/** Errors: `bad_request` where nothing is left to look for. */
export function readTerms(query: string): SearchTerm[] {
  if (query.length > MAX_TEXT) throw new TapedeckError('bad_request', `q: at most ${MAX_TEXT} characters`);
  const terms = [...query.matchAll(PART)].map(([, minus, phrase, word]) => termOf(phrase ?? word ?? '', minus === '-'));
  const wanted = terms.filter((term) => term.text !== '');
  if (wanted.every((term) => term.isExcluded)) throw new TapedeckError('bad_request', 'q: names nothing to look for');
  if (wanted.length > MAX_TERMS) throw new TapedeckError('bad_request', `q: at most ${MAX_TERMS} words and phrases`);
  return wanted;
}

function termOf(text: string, isExcluded: boolean): SearchTerm {
  // a word beyond ASCII may be part of a longer run in the index, as in languages without spaces
  const words = (text.match(WORD) ?? []).filter((word) => ASCII_WORD.test(word));
  return { text, words, isPhrase: words.length !== 1 || words[0] !== text, isExcluded };
}

/** The forms of a word that count as the same where case does not matter: as written, lower, upper, capitalised. */
export function formsOf(word: string): string[] {
  return [...new Set([word, word.toLowerCase(), word.toUpperCase(), word.charAt(0).toUpperCase() + word.slice(1).toLowerCase()])];
}

/** Conditions on `t.text`. Words go through the index; a phrase, and what is beyond ASCII, is then looked for in what is left. */
export function termsSql(terms: readonly SearchTerm[], isExact: boolean, params: Params): string {
  return terms
    .map((term) => {
      const found = [
        ...term.words.map((word) => `hasAnyTokens(t.text, ${params.add(isExact ? [word] : formsOf(word), 'Array(String)')})`),
        ...(term.isPhrase
          ? [`${isExact ? 'position' : 'positionCaseInsensitiveUTF8'}(t.text, ${params.add(term.text, 'String')}) > 0`]
          : []),
      ].join(' AND ');
      return term.isExcluded ? `NOT (${found})` : found;
    })
    .join(' AND ');
}
