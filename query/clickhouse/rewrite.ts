/**
 * Makes a canonical statement of a foreign client one that the guard judges: the project's own database as a qualifier is dropped, system tables become placeholders (filled
 * with subqueries of ours after the guard has passed the text), and functions that ask about the session become what it is. Pure; safety does not rest on it: whatever
 * comes out is judged as any other text.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import { stringLiteral } from '../../store/columns/sql-literal.ts';
import { SHOWN_DATABASE, systemTable, type SystemTable } from './system-tables.ts';

export type Token = { readonly text: string; readonly name: string | null };

const TOKEN =
  /'(?:[^'\\]|\\[^]|'')*'|`((?:[^`\\]|\\[^]|``)*)`|\{[A-Za-z_]\w*:(?:'(?:[^'\\]|\\[^])*'|[^{}'])*\}|([A-Za-z_]\w*)|\d[\w.]*|\s+|[^]/g;

/** Canonical text only: strings in single quotes, odd names in back-ticks. `name` is null for what is no name. */
export function tokensOfText(text: string): Token[] {
  return Array.from(text.matchAll(TOKEN), ([whole, quoted, plain]) => ({ text: whole, name: plain ?? quoted ?? null }));
}

const PLACEHOLDER = '__tapedeck_';

/** Functions without arguments that the guard refuses, with what they are here. */
const SESSION: Readonly<Record<string, string>> = {
  currentdatabase: stringLiteral(SHOWN_DATABASE),
  database: stringLiteral(SHOWN_DATABASE),
  schema: stringLiteral(SHOWN_DATABASE),
  current_database: stringLiteral(SHOWN_DATABASE),
  currentuser: stringLiteral(SHOWN_DATABASE),
  user: stringLiteral(SHOWN_DATABASE),
  current_user: stringLiteral(SHOWN_DATABASE),
  displayname: "'tapedeck'",
  hostname: "'tapedeck'",
  fqdn: "'tapedeck'",
  revision: 'toUInt32(0)',
  uptime: 'toUInt32(0)',
  currentschemas: `[${stringLiteral(SHOWN_DATABASE)}]`,
};

const SYSTEM = new Set(['system', 'information_schema']);

export type Rewritten = {
  readonly text: string;
  readonly readsSystem: boolean;
  /** The text that runs: placeholders filled for this database of the engine. */
  filledFor(database: string): string;
};

/** `own` are names of the project's database, `views` the names in it. */
export function rewrite(canonical: string, own: ReadonlySet<string>, views: ReadonlySet<string>): Result<Rewritten> {
  const tokens = tokensOfText(canonical);
  const out: string[] = [];
  const sources = new Map<string, SystemTable>();
  const aliases = aliasesOf(tokens);
  for (let at = 0; at < tokens.length; at++) {
    const { text, name } = tokens[at] as Token;
    if (name === null) {
      out.push(text);
      continue;
    }
    if (name.startsWith(PLACEHOLDER)) return fail('sql_refused', `names may not begin with ${PLACEHOLDER}`, name);
    const isPart = tokens[at - 1]?.text === '.';
    const second = tokens[at + 1]?.text === '.' ? (tokens[at + 2]?.name ?? null) : null;
    if (!isPart && second !== null && SYSTEM.has(name.toLowerCase())) {
      const found = systemTable(name, second);
      if (found === null)
        return fail('forbidden', `Not enough privileges: ${name}.${second} is not part of a project`, `${name}.${second}`);
      at += 2;
      if (tokens[at + 1]?.text === '.') out.push(aliases.get(found.name) ?? found.alias);
      else {
        sources.set(PLACEHOLDER + found.name, found);
        out.push(PLACEHOLDER + found.name);
      }
    } else if (!isPart && second !== null && own.has(name) && views.has(second)) {
      out.push((tokens[at + 2] as Token).text);
      at += 2;
    } else if (
      !isPart &&
      text === name &&
      tokens[at + 1]?.text === '(' &&
      tokens[at + 2]?.text === ')' &&
      Object.hasOwn(SESSION, name.toLowerCase())
    ) {
      const value = SESSION[name.toLowerCase()] as string;
      out.push(nextWord(tokens, at + 3) === 'AS' ? value : `(${value} AS \`${name}()\`)`);
      at += 2;
    } else out.push(text);
  }
  const text = out.join('');
  return ok({ text, readsSystem: sources.size > 0, filledFor: (database) => fill(text, sources, database) });
}

/** The aliases that a statement gives to system tables: columns may still be written with the full name in front. */
function aliasesOf(tokens: readonly Token[]): ReadonlyMap<string, string> {
  const aliases = new Map<string, string>();
  for (const [at, { name }] of tokens.entries()) {
    const second = tokens[at + 1]?.text === '.' ? tokens[at + 2]?.name : null;
    if (name === null || second === null || second === undefined || !SYSTEM.has(name.toLowerCase())) continue;
    const words = tokens.slice(at + 3, at + 8).filter(({ text }) => text.trim() !== '');
    const found = words[0]?.text === 'AS' ? systemTable(name, second) : null;
    if (found !== null && words[1] !== undefined) aliases.set(found.name, words[1].text);
  }
  return aliases;
}

function fill(text: string, sources: ReadonlyMap<string, SystemTable>, database: string): string {
  if (sources.size === 0) return text;
  const tokens = tokensOfText(text);
  return tokens
    .map((token, at) => {
      const table = token.name === null || tokens[at - 1]?.text === '.' ? undefined : sources.get(token.name);
      if (table === undefined) return token.text;
      const { source, alias } = table;
      return nextWord(tokens, at + 1) === 'AS' ? `(${source(database)})` : `(${source(database)}) AS ${alias}`;
    })
    .join('');
}

function nextWord(tokens: readonly Token[], from: number): string | null {
  for (let at = from; at < tokens.length; at++) {
    const { text } = tokens[at] as Token;
    if (text.trim() !== '') return text;
  }
  return null;
}
