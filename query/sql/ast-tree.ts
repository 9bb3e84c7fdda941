import { fail, ok } from '../../base/result.ts';
import type { Result } from '../../base/result.ts';

/** One node of ClickHouse's syntax tree as `EXPLAIN AST` prints it: its kind, and what stands behind the kind (a name, a literal, an alias). */
export type AstNode = { readonly kind: string; readonly text: string; readonly children: readonly AstNode[] };

type OpenNode = { readonly kind: string; readonly text: string; readonly children: OpenNode[]; readonly declared: number };

const LINE = /^( *)([A-Za-z:]+)(.*?)(?: \(children (\d+)\))?$/;
const SUFFIX = ' (children ';

/**
 * Reads the lines of `EXPLAIN AST`. Every line declares how many children it has; the indentation must agree with that on every level.
 * A name with line feeds prints lines that look like nodes: they disturb the count of some node that has no name, and the whole tree is refused.
 */
export function parseAst(lines: readonly string[]): Result<AstNode> {
  const path: OpenNode[] = [];
  let root: OpenNode | undefined;
  for (const line of lines) {
    const match = LINE.exec(line);
    if (!match) return broken('a line of the syntax tree is not a node');
    const [, indent = '', kind = '', text = '', declared] = match;
    if (text.includes(SUFFIX)) return broken('a name imitates the syntax tree');
    const node: OpenNode = { kind, text: text.trimStart(), children: [], declared: Number(declared ?? 0) };
    const depth = indent.length;
    if (depth > path.length || (depth === 0 && root !== undefined)) return broken('a line of the syntax tree is on a wrong level');
    path.length = depth;
    if (depth === 0) root = node;
    else path[depth - 1]?.children.push(node);
    path.push(node);
  }
  if (root === undefined) return broken('the syntax tree is empty');
  return hasDeclaredChildren(root) ? ok(root) : broken('a node of the syntax tree has other children than it declares');
}

function hasDeclaredChildren(root: OpenNode): boolean {
  const open = [root];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (node.children.length !== node.declared) return false;
    for (const child of node.children) open.push(child);
  }
  return true;
}

function broken(what: string): Result<never> {
  return fail('sql_refused', `${what}: names with line feeds or with the text "(children" are not allowed`);
}

/** The name of an Identifier, TableIdentifier or Function: the text without its alias. */
export function nameOf(node: AstNode): string {
  const at = node.text.indexOf(' (alias ');
  return at < 0 ? node.text : node.text.slice(0, at);
}
