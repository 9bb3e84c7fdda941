import { fail, ok } from '../../base/result.ts';
import type { Result } from '../../base/result.ts';

/**
 * Canonical SQL is what the engine's own formatter prints: no comments, strings in single quotes and odd names in back-ticks, both with
 * backslash escapes, so that a raw line feed is always a line break of the layout. Only such text is read here.
 */
export type Statement =
  | { readonly kind: 'select' }
  | { readonly kind: 'show-tables' }
  | { readonly kind: 'describe'; readonly table: string }
  | { readonly kind: 'other'; readonly name: string };

const SELECT = /^(?:SELECT|WITH|\()/;
const DESCRIBE = /^DESCRIBE TABLE `?([A-Za-z_][A-Za-z0-9_]*)`?$/;

/** Tells by its first words what a canonical statement is. */
export function classify(canonical: string): Statement {
  const text = canonical.trim();
  if (SELECT.test(text)) return { kind: 'select' };
  if (text === 'SHOW TABLES') return { kind: 'show-tables' };
  const described = DESCRIBE.exec(text)?.[1];
  if (described !== undefined) return { kind: 'describe', table: described };
  return { kind: 'other', name: /^[A-Z]+(?: [A-Z]+)?/.exec(text)?.[0] ?? text.slice(0, 20) };
}

const CLAUSES: Readonly<Record<string, string>> = {
  FORMAT: 'the format is chosen with the field "format" of the request (--format on the command line)',
  SETTINGS: 'settings and limits are fixed by the server',
  'INTO OUTFILE': 'results are answered, never written to files of the server',
};

/** The first clause on the outermost level that says where or how the result is written, with the remedy. */
export function forbiddenClause(canonical: string): { readonly clause: string; readonly remedy: string } | null {
  for (const line of canonical.split('\n')) {
    for (const [clause, remedy] of Object.entries(CLAUSES)) if (line.startsWith(`${clause} `)) return { clause, remedy };
  }
  return null;
}

export type Parameter = { readonly name: string; readonly type: string };
export type Tokens = { readonly quotedNames: readonly string[]; readonly parameters: readonly Parameter[] };

/** The quoted names (still escaped) and the typed parameters `{name:Type}` of a canonical text. */
export function tokensOf(canonical: string): Tokens {
  const quotedNames: string[] = [];
  const parameters: Parameter[] = [];
  const token = /'(?:[^'\\]|\\[^]|'')*'|`((?:[^`\\]|\\[^]|``)*)`|\{([A-Za-z_][A-Za-z0-9_]*):((?:'(?:[^'\\]|\\[^])*'|[^{}'])*)\}/g;
  for (const [, name, parameter, type] of canonical.matchAll(token)) {
    if (name !== undefined) quotedNames.push(name);
    if (parameter !== undefined && type !== undefined) parameters.push({ name: parameter, type: type.trim() });
  }
  return { quotedNames, parameters };
}

/** Refuses names that could be taken for lines of a syntax tree: with control characters (the formatter escapes them) or its own notation. */
export function checkNames(names: readonly string[]): Result<null> {
  for (const name of names) {
    // oxlint-disable-next-line no-control-regex
    if (/\\[^`\\']|[\u0000-\u001f\u007f]/.test(name) || name.includes(' (children ') || name.includes(' (alias ')) {
      return fail('sql_refused', 'a quoted name holds control characters or imitates the syntax tree: use plain names and aliases', name);
    }
  }
  return ok(null);
}

/** Parameters must be given, no others, and a parameter that is a name (`{t:Identifier}`) must be a plain one. */
export function checkParameters(parameters: readonly Parameter[], given: Readonly<Record<string, unknown>>): Result<null> {
  const wanted = new Map(parameters.map((parameter) => [parameter.name, parameter.type]));
  for (const [name, type] of wanted) {
    if (!Object.hasOwn(given, name))
      return fail('bad_request', `the query uses {${name}:${type}} but params holds no "${name}"`, `params.${name}`);
    if (type.includes('AggregateFunction'))
      return fail('sql_refused', `the parameter "${name}" must not be an aggregate state`, `params.${name}`);
    if (type === 'Identifier' && !/^[A-Za-z_][A-Za-z0-9_]*$/.test(String(given[name]))) {
      return fail('sql_refused', `the parameter "${name}" is a name and may hold letters, digits and _ only`, `params.${name}`);
    }
  }
  for (const name of Object.keys(given)) {
    if (!wanted.has(name)) return fail('bad_request', `params holds "${name}" but the query has no {${name}:Type}`, `params.${name}`);
  }
  return ok(null);
}
