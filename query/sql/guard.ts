/**
 * Decides over the syntax tree of a canonical statement whether it may run. Allow-lists only: what is not known to be harmless is refused.
 * The tree is `EXPLAIN AST <canonical text> FORMAT Null`: the marker `FORMAT Null` is ours, so any other clause of output shows as a further child.
 */
import { fail, ok } from '../../base/result.ts';
import type { Result } from '../../base/result.ts';
import { PROJECT_DATABASE_PREFIX } from '../../store/columns/project-database.ts';
import { nameOf } from './ast-tree.ts';
import type { AstNode } from './ast-tree.ts';
import { refusalOfFunction } from './function-rule.ts';

const ALLOWED_KINDS: ReadonlySet<string> = new Set([
  'SelectWithUnionQuery', 'SelectIntersectExceptQuery', 'SelectQuery', 'Subquery', 'WithElement', 'ExpressionList',
  'TablesInSelectQuery', 'TablesInSelectQueryElement', 'TableExpression', 'TableIdentifier', 'TableJoin', 'ArrayJoin', 'SampleRatio',
  'Identifier', 'Literal', 'Function', 'OrderByElement', 'InterpolateElement', 'WindowDefinition', 'WindowListElement',
  'Asterisk', 'QualifiedAsterisk', 'ColumnsRegexpMatcher', 'ColumnsListMatcher', 'QualifiedColumnsRegexpMatcher', 'QualifiedColumnsListMatcher',
  'ColumnsTransformerList', 'ColumnsExceptTransformer', 'ColumnsReplaceTransformer', 'ColumnsReplaceTransformer::Replacement',
]); // prettier-ignore

const REFUSED_KINDS: Readonly<Record<string, readonly [what: string, reason: string]>> = {
  Set: ['SETTINGS', 'settings and limits are fixed by the server'],
  ColumnsApplyTransformer: ['APPLY', 'its function cannot be checked; write the expression for each column'],
  ASTStreamSettings: ['STREAM', 'a query ends; follow the event log to stream'],
};

/** What a table expression may hold. A function there is a table function, which reads files, addresses or other databases. */
const TABLE_SOURCES: ReadonlySet<string> = new Set(['TableIdentifier', 'Subquery', 'SampleRatio', 'ExpressionList']);

const MEMBERSHIP = /^(?:global)?(?:not)?(?:null)?in(?:ignoreset)?$/i;

/** Functions whose second argument is a type. A forged aggregate state could crash the engine, so no value may be made one from bytes. */
const CASTS: ReadonlySet<string> = new Set(['cast', '_cast', 'accuratecast', 'accuratecastornull', 'accuratecastordefault', 'reinterpret']);

export type Names = {
  /** Databases of the engine besides those of projects. */
  readonly databases: ReadonlySet<string>;
};

/** `field` of the problem is the name of what was refused. */
export function checkSelect(root: AstNode, names: Names): Result<null> {
  const [body, marker, ...more] = root.children;
  if (root.kind !== 'SelectWithUnionQuery' || body?.kind !== 'ExpressionList') return refuse(root.kind, 'only SELECT statements may run');
  if (marker?.kind !== 'Identifier' || marker.text !== 'Null' || marker.children.length > 0 || more.length > 0) {
    return refuse('FORMAT', 'the statement says how its result is written; choose the format in the request');
  }
  const open: AstNode[] = [body];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const problem = checkNode(node, names);
    if (!problem.ok) return problem;
    open.push(...node.children.flatMap((child) => (isValues(node, child) ? child.children : [child])));
  }
  return ok(null);
}

function checkNode(node: AstNode, names: Names): Result<null> {
  const known = REFUSED_KINDS[node.kind];
  if (known) return refuse(...known);
  if (!ALLOWED_KINDS.has(node.kind)) return refuse(node.kind, 'this form of SQL is not on the list of allowed ones');
  switch (node.kind) {
    case 'TableExpression':
      return checkTable(node);
    case 'TableIdentifier':
      return nameOf(node).includes('.')
        ? refuse(nameOf(node), 'tables are named without a database: each project sees its own views')
        : ok(null);
    case 'Identifier':
      return checkIdentifier(nameOf(node), names);
    case 'Function':
      return checkFunction(node);
    default:
      return ok(null);
  }
}

function checkTable(node: AstNode): Result<null> {
  for (const child of node.children) {
    if (isValues(node, child)) continue;
    if (child.kind === 'Function') {
      return refuse(nameOf(child), 'table functions are not allowed; for a list of numbers use arrayJoin(range(n))');
    }
    if (!TABLE_SOURCES.has(child.kind)) return refuse(child.kind, 'a query reads views and subqueries only');
  }
  return ok(null);
}

function isTuple(node: AstNode): boolean {
  return node.kind === 'Literal' ? node.text.startsWith('Tuple_(') : node.kind === 'Function' && nameOf(node) === 'tuple';
}

/**
 * `FROM values('a String, b UInt8', ('x', 1))`: rows that are written out, as drivers send them along. Its first argument describes columns: names and plain types only,
 * since a default there would be an expression that nobody has checked. Without it the first argument is a row.
 */
function isValues(table: AstNode, child: AstNode): boolean {
  if (table.kind !== 'TableExpression' || child.kind !== 'Function' || nameOf(child).toLowerCase() !== 'values') return false;
  const structure = child.children[0]?.children[0];
  if (structure === undefined || isTuple(structure)) return structure !== undefined;
  return structure.kind === 'Literal' && PLAIN_STRUCTURE.test(structure.text) && !/AggregateFunction/i.test(structure.text);
}

const PLAIN_STRUCTURE = /^'(?:\w+ [A-Z][A-Za-z0-9]*(?:\([A-Z][A-Za-z0-9]*\))?(?:, |$|'))+$/;

function checkIdentifier(name: string, names: Names): Result<null> {
  const [first, ...rest] = name.split('.');
  if (first === undefined || rest.length === 0) return ok(null);
  if (!names.databases.has(first) && !first.startsWith(PROJECT_DATABASE_PREFIX)) return ok(null);
  return refuse(name, `"${first}" could be a database, and a query sees its own project only; give the table another alias`);
}

function checkFunction(node: AstNode): Result<null> {
  const name = nameOf(node);
  const reason = refusalOfFunction(name);
  if (reason !== null) return refuse(name, `the function ${reason}`);
  const args = node.children[0]?.children ?? [];
  const second = args[1];
  if (MEMBERSHIP.test(name) && second?.kind === 'Identifier' && nameOf(second).includes('.')) {
    return refuse(nameOf(second), 'the right side of IN would be a table of a database; for an array column use has(array, value)');
  }
  if (CASTS.has(name.toLowerCase()) && (second?.kind !== 'Literal' || second.text.includes('AggregateFunction'))) {
    return refuse(name, 'the type of a cast must be written out and must not be an aggregate state');
  }
  return ok(null);
}

function refuse(what: string, reason: string): Result<null> {
  return fail('sql_refused', `${what} is refused: ${reason}`, what);
}
