import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { killByComment, placeholders, readStatement } from './statement.ts';
import type { Statement } from './statement.ts';

function read(sql: string, isWhole = true): Statement {
  const result = readStatement(Buffer.from(sql), isWhole);
  assert.ok(result?.ok, `${JSON.stringify(sql)} was not accepted: ${JSON.stringify(result)}`);
  return result.value;
}

function refused(sql: string): number {
  const result = readStatement(Buffer.from(sql), true);
  assert.ok(result && !result.ok, `${JSON.stringify(sql)} was accepted`);
  return result.error.code;
}

describe('statements with a result', () => {
  test('the place for INTO OUTFILE is before a FORMAT clause, else at the end', () => {
    const cases: [string, string, string, string | null][] = [
      ['SELECT 1', 'SELECT 1', '', null],
      ['SELECT 1;', 'SELECT 1', '', null],
      ['SELECT 1 -- done', 'SELECT 1', '', null],
      ['SELECT 1 FORMAT JSON', 'SELECT 1 ', 'FORMAT JSON', 'JSON'],
      ['select 1 format TSV settings max_threads=1 ;', 'select 1 ', 'format TSV settings max_threads=1', 'TSV'],
      ['SELECT 1 SETTINGS max_threads=1 FORMAT CSV', 'SELECT 1 SETTINGS max_threads=1 ', 'FORMAT CSV', 'CSV'],
      ["SELECT 'é FORMAT x', 1 AS format", "SELECT 'é FORMAT x', 1 AS format", '', null],
      ['SELECT é FORMAT JSON', 'SELECT é ', 'FORMAT JSON', 'JSON'],
      ['SELECT * FROM (SELECT 1 AS format) FORMAT JSON', 'SELECT * FROM (SELECT 1 AS format) ', 'FORMAT JSON', 'JSON'],
      ['(SELECT 1)', '(SELECT 1)', '', null],
      ['SELECT 1 /* FORMAT /* nested */ JSON */', 'SELECT 1', '', null],
      ['FROM numbers(3) SELECT number', 'FROM numbers(3) SELECT number', '', null],
      ['SHOW TABLES', 'SHOW TABLES', '', null],
      ['WITH 1 AS x SELECT x', 'WITH 1 AS x SELECT x', '', null],
    ];
    for (const [sql, head, tail, format] of cases) {
      const statement = read(sql);
      assert.equal(statement.kind, 'rows', sql);
      assert.deepEqual([statement.head, statement.tail, statement.format], [head, tail, format], sql);
    }
  });

  test('everything else is run as it is', () => {
    for (const sql of [
      'CREATE TABLE t (a Int8) ENGINE = Memory',
      'SET a = 1',
      'USE x',
      'INSERT INTO t SELECT 1',
      'WITH 1 AS x INSERT INTO t SELECT x',
      'OPTIMIZE TABLE t',
    ]) {
      assert.equal(read(sql).kind, 'plain', sql);
    }
  });
});

describe('refusals', () => {
  test('a second statement is refused however it is hidden', () => {
    for (const sql of [
      'SELECT 1; SELECT 2',
      'SELECT 1;/**/;SELECT 2',
      "SELECT 'a\\'b'; SELECT 2",
      "SELECT 'a'''; SELECT 2",
      'SELECT ‘;’; SELECT 2',
      "SELECT ‘'’; DROP TABLE t -- '",
      'SELECT $a$;$a$; SELECT 2',
      'SELECT `a\\``; SELECT 2',
      'SELECT 1 # x\n; SELECT 2',
      'SELECT 1 // x\n; SELECT 2',
      'INSERT INTO t SELECT 1; DROP TABLE t',
    ]) {
      assert.equal(refused(sql), 62, sql);
    }
  });

  test('a semicolon that is not a statement end is not', () => {
    for (const sql of [
      "SELECT ';'",
      'SELECT 1 AS `;`',
      'SELECT 1 AS ";"',
      'SELECT 1 -- ;',
      'SELECT 1 /* ; */',
      'SELECT $$;$$',
      'SELECT ‘;’',
      'SELECT 1;;',
      'SELECT 1; -- done',
    ]) {
      assert.equal(read(sql).kind, 'rows', sql);
    }
  });

  test('files of the engine are not for clients', () => {
    assert.equal(refused("SELECT 1 INTO OUTFILE '/tmp/x'"), 344);
    assert.equal(refused("SELECT 1 INTO/**/outfile '/tmp/x'"), 344);
    assert.equal(refused("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT LineAsString"), 344);
    assert.equal(refused("INSERT INTO t (a) FROM -- x\n INFILE '/etc/passwd' FORMAT LineAsString"), 344);
    assert.equal(read("SELECT 'INTO OUTFILE x'").kind, 'rows');
  });

  test('nothing at all', () => {
    for (const sql of ['', ' ', '-- only a comment', ';']) assert.equal(refused(sql), 62, JSON.stringify(sql));
  });
});

describe('inserts', () => {
  function insert(sql: string): { head: string; clauses: string; format: string; data: string } {
    const statement = read(sql);
    assert.equal(statement.kind, 'insert', sql);
    return {
      head: statement.head,
      clauses: statement.clauses,
      format: statement.format,
      data: Buffer.from(sql).subarray(statement.dataAt).toString(),
    };
  }

  test('head, settings, format and data', () => {
    const cases: [string, string, string, string, string][] = [
      ['INSERT INTO t FORMAT CSV\n1,2', 'INSERT INTO t ', '', 'CSV', '1,2'],
      ['INSERT INTO t FORMAT CSV 1,2', 'INSERT INTO t ', '', 'CSV', '1,2'],
      ['INSERT INTO t FORMAT CSV \r\n 1,2', 'INSERT INTO t ', '', 'CSV', ' 1,2'],
      ['INSERT INTO t FORMAT RowBinary\n\n\0', 'INSERT INTO t ', '', 'RowBinary', '\n\0'],
      ["insert into db.t (a, `b c`) values (1,'FORMAT')", 'insert into db.t (a, `b c`) ', '', 'Values', "(1,'FORMAT')"],
      [
        'INSERT INTO t (a) SETTINGS x=1, y=2 FORMAT JSONEachRow {"a":1}',
        'INSERT INTO t (a) ',
        'SETTINGS x=1, y=2 ',
        'JSONEachRow',
        '{"a":1}',
      ],
      ['INSERT INTO TABLE t VALUES (1)', 'INSERT INTO TABLE t ', '', 'Values', '(1)'],
      ["INSERT INTO FUNCTION null('a Int8') VALUES (1)", "INSERT INTO FUNCTION null('a Int8') ", '', 'Values', '(1)'],
      ['INSERT INTO format FORMAT TSV\n1', 'INSERT INTO format ', '', 'TSV', '1'],
      ['INSERT INTO values VALUES (1)', 'INSERT INTO values ', '', 'Values', '(1)'],
      ['INSERT INTO d.values (`select`) FORMAT TSV\n1', 'INSERT INTO d.values (`select`) ', '', 'TSV', '1'],
      ['/* é */ INSERT INTO é FORMAT TSV\né', '/* é */ INSERT INTO é ', '', 'TSV', 'é'],
      ['INSERT INTO t FORMAT TSV\n', 'INSERT INTO t ', '', 'TSV', ''],
    ];
    for (const [sql, head, clauses, format, data] of cases) assert.deepEqual(insert(sql), { head, clauses, format, data }, sql);
  });

  test('the data of an insert may look like anything', () => {
    assert.equal(insert("INSERT INTO t FORMAT TSV\nx; DROP TABLE t INTO OUTFILE 'y'").data, "x; DROP TABLE t INTO OUTFILE 'y'");
  });

  test('asks for more while the head may go on', () => {
    const sql = 'INSERT INTO t (a, b) SETTINGS x = 1 FORMAT Native\nDATA';
    fc.assert(
      fc.property(fc.integer({ min: 0, max: sql.length }), (length) => {
        const part = readStatement(Buffer.from(sql.slice(0, length)), false);
        if (part === null) return;
        assert.ok(part.ok && part.value.kind === 'insert' && part.value.format === 'Native' && part.value.dataAt === sql.indexOf('DATA'));
      }),
      { numRuns: 200 },
    );
    assert.notEqual(readStatement(Buffer.from(sql), false), null);
  });

  test('an INSERT SELECT is one statement', () => {
    for (const sql of [
      'INSERT INTO t SELECT 1',
      'INSERT INTO t (a) (SELECT 1)',
      'INSERT INTO t WITH 1 AS x SELECT x',
      'INSERT INTO t (a) SELECT a FROM u WHERE values = 1',
    ]) {
      assert.equal(read(sql).kind, 'plain', sql);
      assert.equal(readStatement(Buffer.from(sql), false), null, sql);
    }
  });
});

test('placeholders are found outside strings only', () => {
  assert.deepEqual(
    placeholders("SELECT {a:UInt8}, '{b:String}', {c : Array(String)}, {d:Identifier} -- {e:Int8}"),
    new Set(['a', 'c', 'd']),
  );
});

test('KILL by query id becomes KILL by comment', () => {
  assert.equal(
    killByComment("KILL QUERY WHERE query_id = 'query_id' ASYNC"),
    "KILL QUERY WHERE Settings['log_comment'] = 'query_id' ASYNC",
  );
  assert.equal(killByComment("KILL QUERY WHERE `query_id` IN ('é')"), "KILL QUERY WHERE Settings['log_comment'] IN ('é')");
  assert.equal(killByComment("KILL QUERY WHERE user = 'x'"), "KILL QUERY WHERE user = 'x'");
});
