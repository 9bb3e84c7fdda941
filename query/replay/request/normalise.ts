/** What may differ between a record and a replay without meaning anything: named rules, each with a pattern, a path, or both. Pure. */
import { z } from 'zod';
import { TapedeckError } from '../../../base/errors.ts';
import { isMap } from '../../../events/fields.ts';
import { matchesPath, readPath, type Path, type Step } from './path.ts';

/** Without `path` a rule looks at every text; without `pattern` it takes the whole value at its path, whatever it is. */
export const normaliserSchema = z
  .strictObject({
    name: z.string().min(1).max(64),
    path: z.string().min(1).max(1024).optional(),
    pattern: z.string().min(1).max(4096).optional(),
  })
  .refine(({ path, pattern }) => path !== undefined || pattern !== undefined, { message: 'needs a path, a pattern, or both' });
export type Normaliser = z.infer<typeof normaliserSchema>;

const MONTHS = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*';
const WEEKDAY = '(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?';

/** What differs from day to day and from process to process. */
export const DEFAULT_NORMALISERS: readonly Normaliser[] = [
  {
    name: 'dates',
    pattern: [
      String.raw`\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b`,
      String.raw`${WEEKDAY}\b\d{1,2} ${MONTHS},? \d{4}\b`,
      String.raw`${WEEKDAY}\b${MONTHS} \d{1,2}(?:,? \d{4}| \d{2}:\d{2}:\d{2} (?:[A-Z]{3,4} )?\d{4})?\b`,
      String.raw`\b\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?\b`,
    ].join('|'),
  },
  {
    name: 'temporary-paths',
    pattern: String.raw`(?:/private)?/(?:tmp|var/tmp|var/folders)/[\w.+@-]+(?:/[\w.+@-]+)*|[A-Za-z]:\\(?:[^\\\s"]+\\)*Temp\\[\w.\\-]+`,
  },
  {
    name: 'ids',
    pattern: String.raw`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b|\b(?:call|toolu|chatcmpl|msg|resp|fc|run|req|thread)[_-][A-Za-z0-9_-]{6,}\b`,
  },
];

export type Rules = readonly { readonly name: string; readonly steps: readonly Step[] | null; readonly pattern: RegExp | null }[];

/** Throws `usage` for a pattern or path that cannot be read. */
export function compileNormalisers(normalisers: readonly Normaliser[]): Rules {
  return normalisers.map(({ name, path, pattern }) => {
    try {
      return { name, steps: path === undefined ? null : readPath(path), pattern: pattern === undefined ? null : new RegExp(pattern, 'gu') };
    } catch (cause) {
      if (cause instanceof SyntaxError) throw new TapedeckError('usage', `normaliser ${name}: ${cause.message}`, { cause });
      throw cause;
    }
  });
}

/** The value with everything that a rule takes replaced by the rule's name. */
export function normalised(value: unknown, rules: Rules, path: Path = []): unknown {
  const taking = rules.find(({ steps, pattern }) => pattern === null && steps !== null && matchesPath(steps, path));
  if (taking !== undefined) return `<${taking.name}>`;
  if (Array.isArray(value)) return value.map((item, i) => normalised(item, rules, [...path, i]));
  if (isMap(value)) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, normalised(item, rules, [...path, key])]));
  return typeof value === 'string' ? replaced(value, rules, path) : value;
}

function replaced(text: string, rules: Rules, path: Path): string {
  let result = text;
  for (const { name, steps, pattern } of rules) {
    if (pattern !== null && (steps === null || matchesPath(steps, path))) result = result.replaceAll(pattern, `<${name}>`);
  }
  return result;
}

type Piece = { readonly text: string; readonly start: number; readonly isTaken: boolean };

/** A text in pieces: what a rule takes, and what stands between. */
function pieces(text: string, rules: Rules, path: Path): Piece[] {
  const taken = rules
    .filter(({ steps, pattern }) => pattern !== null && (steps === null || matchesPath(steps, path)))
    .flatMap(({ pattern }) => [...text.matchAll(pattern as RegExp)].map((m) => ({ start: m.index, end: m.index + m[0].length })))
    .toSorted((a, b) => a.start - b.start || b.end - a.end);
  const found: Piece[] = [];
  let at = 0;
  for (const { start, end } of taken) {
    if (start < at) continue;
    found.push({ text: text.slice(at, start), start: at, isTaken: false }, { text: text.slice(start, end), start, isTaken: true });
    at = end;
  }
  return [...found, { text: text.slice(at), start: at, isTaken: false }];
}

/** Where two texts differ in what no rule takes: an offset in each; null when they differ only in what rules take. */
export function unexplainedAt(recorded: string, live: string, rules: Rules, path: Path): [number, number] | null {
  const [before, after] = [pieces(recorded, rules, path), pieces(live, rules, path)];
  for (let i = 0; i < Math.max(before.length, after.length); i++) {
    const [a, b] = [before[i], after[i]];
    if (a === undefined || b === undefined) return [a?.start ?? recorded.length, b?.start ?? live.length];
    if (a.isTaken && b.isTaken) continue;
    if (a.text === b.text) continue;
    let n = 0;
    while (n < a.text.length && n < b.text.length && a.text.charCodeAt(n) === b.text.charCodeAt(n)) n++;
    // not between the halves of a pair
    if (n > 0 && (a.text.charCodeAt(n - 1) & 0xfc00) === 0xd800) n--;
    return [a.start + n, b.start + n];
  }
  return null;
}

/** Which of the rules make two values at one place equal; the fewest first. */
export function explainedBy(recorded: unknown, live: unknown, rules: Rules, path: Path): string[] {
  const same = (some: Rules): boolean =>
    JSON.stringify(plain(normalised(recorded, some, path))) === JSON.stringify(plain(normalised(live, some, path)));
  const above = rules.find(
    ({ steps, pattern }) => pattern === null && steps !== null && path.some((_, i) => matchesPath(steps, path.slice(0, i + 1))),
  );
  if (above !== undefined) return [above.name];
  const alone = rules.find((rule) => same([rule]));
  if (alone !== undefined) return [alone.name];
  let needed = [...rules];
  for (const rule of rules) {
    const without = needed.filter((other) => other !== rule);
    if (same(without)) needed = without;
  }
  return [...new Set(needed.map(({ name }) => name))];
}

function plain(value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}
