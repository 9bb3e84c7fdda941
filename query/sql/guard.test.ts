import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseAst } from './ast-tree.ts';
import { checkNames, checkParameters, classify, forbiddenClause, tokensOf } from './canonical-text.ts';
import { refusalOfFunction } from './function-rule.ts';
import { checkSelect } from './guard.ts';
import { offsetOfByte, offsetOfName, positionAt } from './sql-position.ts';

const NAMES = { databases: new Set(['system', 'tapedeck']) };

/** A statement around select-list lines at depth 4. */
function tree(...items: string[]): string[] {
  const count = items.filter((item) => !item.startsWith(' ')).length;
  return [
    'SelectWithUnionQuery (children 2)',
    ' ExpressionList (children 1)',
    '  SelectQuery (children 1)',
    `   ExpressionList (children ${count})`,
    ...items.map((item) => `    ${item}`),
    ' Identifier Null',
  ];
}

function verdict(lines: string[]): string | null {
  const parsed = parseAst(lines);
  if (!parsed.ok) return 'tree';
  const checked = checkSelect(parsed.value, NAMES);
  return checked.ok ? null : (checked.error.field ?? '');
}

test('a plain select passes', () => {
  assert.equal(verdict(tree('Literal UInt64_1', 'Function plus (alias x) (children 1)', ' ExpressionList (children 2)', '  Identifier a', '  Identifier t.b')), null); // prettier-ignore
});

test('each rule refuses by name', () => {
  const call = (name: string, ...args: string[]): string[] =>
    tree(
      `Function ${name} (children 1)`,
      ` ExpressionList${args.length > 0 ? ` (children ${args.length})` : ''}`,
      ...args.map((arg) => `  ${arg}`),
    );
  assert.equal(verdict(call('file', "Literal 'x'")), 'file');
  assert.equal(verdict(call('in', 'Literal UInt64_1', 'Identifier a.b')), 'a.b');
  assert.equal(verdict(call('in', 'Literal UInt64_1', 'Identifier b')), null);
  assert.equal(verdict(call('CAST', 'Identifier x', "Literal 'AggregateFunction(uniq, String)'")), 'CAST');
  assert.equal(verdict(call('CAST', 'Identifier x', 'Identifier type')), 'CAST');
  assert.equal(verdict(call('CAST', 'Identifier x', "Literal 'UInt8'")), null);
  assert.equal(verdict(tree('Identifier system.one')), 'system.one');
  assert.equal(verdict(tree('Identifier p_other.nodes.text')), 'p_other.nodes.text');
  const table = [
    'Subquery (children 1)',
    ' SelectWithUnionQuery (children 1)',
    '  TableExpression (children 1)',
    '   Function format (children 1)',
    '    ExpressionList',
  ];
  assert.equal(verdict(tree(...table)), 'format');
  const values = (structure: string): string[] => [
    ...table.slice(0, 3),
    '   Function values (children 1)',
    '    ExpressionList (children 2)',
    `     Literal ${structure}`,
    "     Literal Tuple_('x')",
  ];
  assert.equal(verdict(tree(...values("'a String'"))), null);
  for (const structure of [
    "'a AggregateFunction(Uniq)'",
    "'a SimpleAggregateFunction(Any)'",
    "'a String DEFAULT 1'",
    "'a Array(Array(String))'",
    'UInt64_1',
  ])
    assert.equal(verdict(tree(...values(structure))), 'values', structure);
  assert.equal(verdict(tree('Set')), 'SETTINGS');
  assert.equal(verdict(tree('ColumnsApplyTransformer')), 'APPLY');
  assert.equal(verdict(tree('SomethingNew')), 'SomethingNew');
});

test('the outermost level is one select and our marker, nothing else', () => {
  const lines = tree('Literal UInt64_1');
  assert.equal(verdict([...lines.slice(0, -1), ' Identifier CSV']), 'FORMAT');
  assert.equal(verdict(['SelectWithUnionQuery (children 3)', ...lines.slice(1, -1), " Literal '/tmp/x'", ' Identifier Null']), 'FORMAT');
  assert.equal(verdict(['SelectWithUnionQuery (children 1)', ...lines.slice(1, -1)]), 'FORMAT');
  assert.equal(verdict(['SelectWithUnionQuery (children 3)', ...lines.slice(1), ' Set']), 'FORMAT');
  assert.equal(verdict([...lines.slice(0, -1), ' Identifier Null (children 1)', '  Literal 1']), 'FORMAT');
  assert.equal(verdict(['Explain EXPLAIN AST (children 2)', ...lines.slice(1)]), 'Explain');
});

test('lines forged by a name disturb the count of children', () => {
  // `file`('x') AS `a)\n    Literal 1 (alias b`, on one line and spilled over two
  assert.equal(verdict(tree('Function plus (alias a)', 'Literal UInt64_1 (alias b) (children 1)', ' ExpressionList (children 1)', '  Literal 1')), null); // prettier-ignore
  const forged = tree('Function plus (alias a)', 'Literal UInt64_1 (alias b) (children 1)', ' ExpressionList (children 1)', '  Literal 1');
  forged[3] = '   ExpressionList (children 1)'; // what the engine declares: the select list holds one expression
  assert.equal(verdict(forged), 'tree');
  assert.equal(verdict([' Literal 1']), 'tree');
  assert.equal(verdict([]), 'tree');
  assert.equal(verdict([...tree('Literal 1'), 'SelectWithUnionQuery']), 'tree');
  assert.equal(verdict(tree('Identifier x (children 1) (children 1)', ' Identifier y')), 'tree');
});

test('removing or adding any line of a tree is noticed', () => {
  const lines = tree(
    'Function plus (alias x) (children 1)',
    ' ExpressionList (children 2)',
    '  Identifier a',
    '  Identifier b',
    'Identifier c',
  );
  fc.assert(
    fc.property(fc.nat(lines.length - 1), fc.nat(7), (at, depth) => {
      assert.equal(verdict(lines.toSpliced(at, 1)), 'tree');
      assert.equal(verdict(lines.toSpliced(at, 0, `${' '.repeat(depth)}Literal UInt64_1`)), 'tree');
    }),
  );
});

test('functions: allowed, refused with a reason, combinators, letter case', () => {
  for (const name of [
    'count',
    'COUNT',
    'sumIf',
    'quantilesTDigestArrayIfOrNull',
    'countDistinct',
    'lambda',
    'arrayMap',
    'ROW_NUMBER',
    'toStartOfHour',
  ]) {
    assert.equal(refusalOfFunction(name), null, name);
  }
  for (const name of ['file', 'FILE', 'dictGetString', 'sleep', 'arraymap', 'plusIf', 'nope', '__getScalar', 'toString ', '']) {
    assert.notEqual(refusalOfFunction(name), null, name);
  }
  assert.match(refusalOfFunction('HostName') ?? '', /about the server/);
});

test('canonical text: statements, clauses, names, parameters', () => {
  assert.deepEqual(classify('SELECT 1'), { kind: 'select' });
  assert.deepEqual(classify('WITH\n    1 AS x\nSELECT x'), { kind: 'select' });
  assert.deepEqual(classify('DESCRIBE TABLE nodes'), { kind: 'describe', table: 'nodes' });
  assert.deepEqual(classify('DESCRIBE TABLE p_x.nodes'), { kind: 'other', name: 'DESCRIBE TABLE' });
  assert.deepEqual(classify('SHOW TABLES FROM x'), { kind: 'other', name: 'SHOW TABLES' });
  assert.equal(forbiddenClause("SELECT 'a\\nFORMAT CSV'"), null);
  assert.equal(forbiddenClause('SELECT 1\nFORMAT CSV')?.clause, 'FORMAT');
  const text = "SELECT '`no`{x:No}', `a\\`b`, {n:Array(Enum('a}' = 1))}, {s:String}, map{0}";
  assert.deepEqual(tokensOf(text), {
    quotedNames: ['a\\`b'],
    parameters: [
      { name: 'n', type: "Array(Enum('a}' = 1))" },
      { name: 's', type: 'String' },
    ],
  });
  assert.ok(checkNames(['p50(ms)', 'a\\`b', 'ä']).ok);
  for (const name of ['a\\nb', 'a\nb', 'a\\0', 'x (children 1)', 'x (alias y']) assert.ok(!checkNames([name]).ok, name);
  const parameters = [{ name: 't', type: 'Identifier' }];
  assert.ok(checkParameters(parameters, { t: 'nodes' }).ok);
  for (const t of ['a.b', '`a`', 'a b', '', 'a\nb']) assert.ok(!checkParameters(parameters, { t }).ok, t);
  assert.ok(!checkParameters([], { x: 1 }).ok);
  assert.ok(!checkParameters([{ name: 'x', type: 'AggregateFunction(uniq, String)' }], { x: 1 }).ok);
  assert.ok(!checkParameters([{ name: 'toString', type: 'String' }], {}).ok);
});

test('positions: bytes to columns, names outside of strings', () => {
  const query = "SELECT 'é foo' AS x,\n  foo, `bar`";
  assert.equal(offsetOfName(query, 'foo'), query.indexOf('foo,'));
  assert.equal(offsetOfName(query, 'n.bar'), query.indexOf('bar'));
  assert.equal(offsetOfName(query, 'missing'), undefined);
  assert.equal(offsetOfByte(query, Buffer.byteLength(query.slice(0, 11)) + 1), 11);
  assert.deepEqual(positionAt(query, query.indexOf('foo,')), { offset: 23, line: 2, column: 3, excerpt: '  foo, `bar`', caret: '  ^' });
  assert.equal(positionAt(query, 9_999).offset, query.length);
  const long = positionAt(`SELECT ${'x'.repeat(500)} FROM`, 400);
  assert.equal(long.excerpt.length, 120);
  assert.equal(long.excerpt[long.caret.length - 1], 'x');
});
