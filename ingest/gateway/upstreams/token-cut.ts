/**
 * Takes token data out of one JSON document of an engine (a body, or the data of one event): ids and log-probabilities go from the text straight into typed arrays,
 * and what is left is what a harness asked for. Everything else in the document stays as it was written. Pure.
 *
 * Known places: `prompt_token_ids` (at the top, or in a choice), `choices[].token_ids`, `choices[].logprobs` (chat and completions shape), and SGLang's
 * `choices[].meta_info`, `output_ids` and `meta_info` (`output_token_logprobs`: [log-probability, id, text]).
 */
import { GrowingFloats, GrowingIds } from './growing.ts';
import { skipSpace, skipString, skipValue, skipWord, Unreadable, walkArray, walkObject } from './json-walk.ts';

/** What a harness did not ask for, and is cut from what it sees. */
export type Unwanted = { readonly ids: boolean; readonly logprobs: boolean; readonly usage: boolean; readonly metaInfo: boolean };

/** Collects over all documents of one answer. */
export type TokenData = {
  promptIds: GrowingIds | null;
  /** By choice index. */
  readonly choices: Map<number, ChoiceTokens>;
  /** Something that should be token data was not: a name for the node's tokenError. */
  fault: string | null;
};
export type ChoiceTokens = { readonly ids: GrowingIds; readonly logprobs: GrowingFloats; hasIds: boolean; hasLogprobs: boolean };

export function noTokenData(): TokenData {
  return { promptIds: null, choices: new Map(), fault: null };
}

const IDS = 1;
const LOGPROBS = 2;
const USAGE = 4;
const META = 8;

type Cut = { readonly kind: number; readonly keyAt: number; readonly valueAt: number; readonly end: number; readonly asNull: boolean };

/** `bare`: without any token data, for reading the answer. `shown`: for the harness. `added`: ids that this document brought, over all choices. */
export type CutDocument = { readonly bare: string; readonly shown: string; readonly added: number };

/** Adds the token data of one document to `data`. A document that cannot be walked comes back as it is: whoever reads it next says what is wrong with it. */
export function cutTokens(text: string, unwanted: Unwanted, data: TokenData): CutDocument {
  const cuts: Cut[] = [];
  const reader = new DocumentReader(text, cuts, data);
  try {
    reader.document();
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return { bare: text, shown: text, added: 0 };
  }
  if (cuts.length === 0) return { bare: text, shown: text, added: 0 };
  const bare = without(text, cuts, IDS | LOGPROBS | META);
  const mask =
    (unwanted.ids ? IDS : 0) | (unwanted.logprobs ? LOGPROBS : 0) | (unwanted.metaInfo ? META : 0) | (unwanted.usage ? USAGE : 0);
  const present = cuts.reduce((all, cut) => all | cut.kind, 0);
  const shown = (present & mask) === (present & (IDS | LOGPROBS | META)) ? bare : without(text, cuts, mask);
  return { bare, shown, added: reader.added };
}

function without(text: string, cuts: readonly Cut[], mask: number): string {
  let out = '';
  let at = 0;
  for (const cut of cuts) {
    if ((cut.kind & mask) === 0) continue;
    if (cut.asNull) {
      out += `${text.slice(at, cut.valueAt)}null`;
      at = cut.end;
      continue;
    }
    out += text.slice(at, cut.keyAt);
    const next = skipSpace(text, cut.end);
    if (text.charCodeAt(next) === 0x2c) at = skipSpace(text, next + 1);
    else {
      out = out.replace(/,\s*$/, '');
      at = cut.end;
    }
  }
  return out + text.slice(at);
}

/** What one choice of one document brings, before it is known which choice it is. Reading a document is one synchronous step, so one pair serves all. */
const scratchIds = new GrowingIds();
const scratchLogprobs = new GrowingFloats();

class DocumentReader {
  readonly text: string;
  readonly cuts: Cut[];
  readonly data: TokenData;
  added = 0;
  readonly #ids = scratchIds;
  readonly #logprobs = scratchLogprobs;
  #hasIds = false;
  #hasLogprobs = false;

  constructor(text: string, cuts: Cut[], data: TokenData) {
    this.text = text;
    this.cuts = cuts;
    this.data = data;
  }

  document(): void {
    const end = walkObject(this.text, skipSpace(this.text, 0), (key, keyAt, valueAt) => {
      switch (key) {
        case 'choices':
          return this.#isNull(valueAt) ? skipWord(this.text, valueAt) : walkArray(this.text, valueAt, (at) => this.#choice(at));
        case 'prompt_token_ids':
          return this.#cut(IDS, keyAt, valueAt, this.#promptIds(valueAt));
        case 'usage':
          return this.#cut(USAGE, keyAt, valueAt, skipValue(this.text, valueAt));
        default:
          return skipValue(this.text, valueAt);
      }
    });
    if (skipSpace(this.text, end) < this.text.length) throw new Unreadable('text behind the document');
  }

  #choice(at: number): number {
    const { text } = this;
    let index = 0;
    this.#ids.clear();
    this.#logprobs.clear();
    this.#hasIds = this.#hasLogprobs = false;
    if (text.charCodeAt(at) !== 0x7b) return skipValue(text, at);
    const end = walkObject(text, at, (key, keyAt, valueAt) => {
      switch (key) {
        case 'index': {
          const after = skipWord(text, valueAt);
          index = Number(text.slice(valueAt, after));
          return after;
        }
        case 'token_ids':
          return this.#cut(IDS, keyAt, valueAt, this.#tokenIds(valueAt));
        case 'prompt_token_ids':
          return this.#cut(IDS, keyAt, valueAt, this.#promptIds(valueAt));
        case 'logprobs':
          if (this.#isNull(valueAt)) return skipWord(text, valueAt);
          return this.#cut(LOGPROBS, keyAt, valueAt, this.#logprobsOf(valueAt), true);
        case 'meta_info':
          return this.#cut(META, keyAt, valueAt, this.#metaInfo(valueAt));
        default:
          return skipValue(text, valueAt);
      }
    });
    this.#keep(index);
    return end;
  }

  /** Adds what one choice brought to what came before for its index. */
  #keep(index: number): void {
    if (!this.#hasIds && !this.#hasLogprobs) return;
    let known = this.data.choices.get(index);
    if (known === undefined) {
      known = { ids: new GrowingIds(), logprobs: new GrowingFloats(), hasIds: false, hasLogprobs: false };
      this.data.choices.set(index, known);
    }
    known.hasIds ||= this.#hasIds;
    known.hasLogprobs ||= this.#hasLogprobs;
    known.ids.append(this.#ids);
    known.logprobs.append(this.#logprobs);
    this.added += this.#ids.length;
  }

  #cut(kind: number, keyAt: number, valueAt: number, end: number, asNull = false): number {
    this.cuts.push({ kind, keyAt, valueAt, end, asNull });
    return end;
  }

  #isNull(at: number): boolean {
    return this.text.charCodeAt(at) === 0x6e;
  }

  #promptIds(at: number): number {
    if (this.#isNull(at)) return skipWord(this.text, at);
    if (this.data.promptIds !== null) return skipValue(this.text, at); // said again for another choice
    const ids = new GrowingIds();
    const end = this.#readIds(at, ids);
    this.data.promptIds = ids;
    return end;
  }

  #tokenIds(at: number): number {
    if (this.#isNull(at)) return skipWord(this.text, at);
    this.#ids.clear(); // meta_info may have said them too
    this.#hasIds = true;
    return this.#readIds(at, this.#ids);
  }

  #readIds(at: number, into: GrowingIds): number {
    const { text } = this;
    if (text.charCodeAt(at) !== 0x5b) {
      this.data.fault ??= 'token_ids_unreadable';
      return skipValue(text, at);
    }
    const plain = readPlainIds(text, at, into);
    if (plain >= 0) return plain;
    this.data.fault ??= 'token_ids_unreadable';
    return skipValue(text, at);
  }

  /** Chat: `{content: [{logprob}]}`. Completions: `{token_logprobs: [..]}`. */
  #logprobsOf(at: number): number {
    const { text } = this;
    if (text.charCodeAt(at) !== 0x7b) return skipValue(text, at);
    return walkObject(text, at, (key, _keyAt, valueAt) => {
      if (this.#isNull(valueAt) || (key !== 'content' && key !== 'token_logprobs')) return skipValue(text, valueAt);
      this.#logprobs.clear();
      this.#hasLogprobs = true;
      return walkArray(text, valueAt, (i) => (key === 'content' ? this.#logprobEntry(i) : this.#number(i)));
    });
  }

  #logprobEntry(at: number): number {
    const { text } = this;
    if (text.charCodeAt(at) !== 0x7b) return this.#number(at);
    const before = this.#logprobs.length;
    const end = walkObject(text, at, (key, _keyAt, valueAt) => {
      if (key !== 'logprob' || this.#logprobs.length > before)
        return text.charCodeAt(valueAt) === 0x22 ? skipString(text, valueAt) : skipValue(text, valueAt);
      return this.#number(valueAt);
    });
    if (this.#logprobs.length === before) this.#logprobs.push(Number.NaN);
    return end;
  }

  /** A number, or NaN for what is none (null, a bare NaN, a string). */
  #number(at: number): number {
    const end = skipValue(this.text, at);
    const word = this.text.slice(at, end);
    this.#logprobs.push(word === 'null' ? Number.NaN : Number(word));
    return end;
  }

  #metaInfo(at: number): number {
    const { text } = this;
    if (text.charCodeAt(at) !== 0x7b) return skipValue(text, at);
    return walkObject(text, at, (key, _keyAt, valueAt) => {
      if (key !== 'output_token_logprobs' || this.#isNull(valueAt)) return skipValue(text, valueAt);
      const hadIds = this.#hasIds;
      this.#logprobs.clear();
      this.#hasLogprobs = true;
      this.#hasIds = true;
      return walkArray(text, valueAt, (i) => {
        let place = 0;
        return walkArray(text, i, (j) => {
          const nth = place++;
          if (nth === 0) return this.#number(j);
          const end = skipValue(text, j);
          if (nth === 1 && !hadIds) this.#ids.push(idOf(text.slice(j, end), this.data));
          return end;
        });
      });
    });
  }
}

function idOf(word: string, data: TokenData): number {
  const id = Number(word);
  if (Number.isInteger(id) && id >= 0 && id < 2 ** 32) return id;
  data.fault ??= 'token_ids_unreadable';
  return 0;
}

/** Reads `[1, 2, …]` and answers the place behind it; -1 when something in it is no id. */
function readPlainIds(text: string, at: number, into: GrowingIds): number {
  let i = skipSpace(text, at + 1);
  if (text.charCodeAt(i) === 0x5d) return i + 1;
  for (;;) {
    const start = i;
    let id = 0;
    let c = text.charCodeAt(i);
    for (; c >= 0x30 && c <= 0x39; c = text.charCodeAt(++i)) id = id * 10 + c - 0x30;
    if (i === start || i - start > 10 || id >= 2 ** 32) return -1;
    into.push(id);
    if (c <= 0x20) c = text.charCodeAt((i = skipSpace(text, i)));
    if (c === 0x5d) return i + 1;
    if (c !== 0x2c) return -1;
    i++;
    if (text.charCodeAt(i) <= 0x20) i = skipSpace(text, i);
  }
}
