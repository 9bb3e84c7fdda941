import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Access } from './access.contract.ts';
import { clickhouseError, json } from './access.contract.ts';

export function answers({ client }: Access): void {
  describe('answers', () => {
    test('ping, with and without a query', async () => {
      assert.deepEqual(await client().ping(), { success: true });
      assert.deepEqual(await client().ping({ select: true }), { success: true });
    });

    test('DDL, an insert and a question', async () => {
      await client().command({ query: 'CREATE TABLE ddl (id UInt64, name String) ENGINE = MergeTree ORDER BY id' });
      await client().insert({
        table: 'ddl',
        values: [
          { id: '1', name: 'one' },
          { id: '2', name: 'zwei ü 🙂' },
        ],
        format: 'JSONEachRow',
      });
      assert.deepEqual(await json(client(), 'SELECT * FROM ddl ORDER BY id'), [
        { id: '1', name: 'one' },
        { id: '2', name: 'zwei ü 🙂' },
      ]);
      await client().command({ query: 'DROP TABLE ddl' });
      assert.deepEqual(await json(client(), 'EXISTS TABLE ddl'), [{ result: 0 }]);
    });

    test('JSON carries names, types, rows and statistics', async () => {
      const result = await client().query({
        query: 'SELECT number, toString(number) AS text FROM numbers(3)',
        format: 'JSON',
        clickhouse_settings: { output_format_json_quote_64bit_integers: 1 },
      });
      const answer = await result.json<{ number: string; text: string }>();
      assert.deepEqual(answer.meta, [
        { name: 'number', type: 'UInt64' },
        { name: 'text', type: 'String' },
      ]);
      assert.equal(answer.rows, 3);
      assert.deepEqual(answer.data[2], { number: '2', text: '2' });
    });

    test('SHOW, DESCRIBE, EXPLAIN and EXISTS give rows', async () => {
      await client().command({ query: 'CREATE TABLE shown (a UInt8) ENGINE = Memory' });
      assert.ok((await json(client(), 'SHOW TABLES')).some((row) => row['name'] === 'shown'));
      assert.equal((await json(client(), 'DESCRIBE TABLE shown'))[0]?.['type'], 'UInt8');
      assert.ok((await json(client(), 'EXPLAIN SELECT 1')).length > 0);
      assert.ok(String((await json(client(), 'SHOW CREATE TABLE shown'))[0]?.['statement']).startsWith('CREATE TABLE'));
    });

    test('a query id comes back, a new one is made', async () => {
      const id = randomUUID();
      const named = await client().query({ query: 'SELECT 1', query_id: id });
      assert.equal(named.query_id, id);
      assert.equal(named.response_headers['x-clickhouse-query-id'], id);
      await named.text();
      const unnamed = await client().command({ query: 'SELECT 1' });
      assert.ok(unnamed.query_id.length > 8);
    });

    test('headers say format, time zone and summary', async () => {
      const result = await client().query({
        query: 'SELECT number FROM numbers(10)',
        format: 'CSV',
        clickhouse_settings: { wait_end_of_query: 1 },
      });
      assert.equal(result.response_headers['x-clickhouse-format'], 'CSV');
      assert.ok(result.response_headers['x-clickhouse-timezone']);
      const summary = JSON.parse(String(result.response_headers['x-clickhouse-summary'])) as Record<string, string>;
      assert.equal(summary['read_rows'], '10');
      assert.equal(await result.text(), '0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n');
      const inserted = await client().insert({ table: "FUNCTION null('a UInt8')", values: [{ a: 1 }, { a: 2 }], format: 'JSONEachRow' });
      assert.equal(inserted.summary?.written_rows, '2');
    });
  });
}

export function context({ client, connect }: Access): void {
  describe('the context of a query', () => {
    test('settings of one query do not leak into the next', async () => {
      const values = await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const settings = i % 2 === 0 ? { clickhouse_settings: { max_block_size: String(1000 + i) } } : {};
          return json(client(), "SELECT toString(getSetting('max_block_size')) AS v", settings);
        }),
      );
      const plain = values.filter((_, i) => i % 2 === 1).map((rows) => rows[0]?.['v']);
      assert.equal(new Set(plain).size, 1);
      values.forEach((rows, i) => i % 2 === 0 && assert.equal(rows[0]?.['v'], String(1000 + i)));
    });

    test('the database of the address is the current one', async () => {
      const other = connect({ database: 'system' });
      assert.deepEqual(await json(other, 'SELECT currentDatabase() AS d'), [{ d: 'system' }]);
      await other.close();
    });

    test('readonly holds for the query that names it', async () => {
      const refused = await clickhouseError(
        client().command({ query: 'CREATE TABLE never (a UInt8) ENGINE = Memory', clickhouse_settings: { readonly: '1' } }),
      );
      assert.equal(refused.code, '164');
      const inline = await clickhouseError(json(client(), 'SELECT 1 SETTINGS readonly = 0', { clickhouse_settings: { readonly: '1' } }));
      assert.equal(inline.code, '164');
      assert.deepEqual(await json(client(), 'SELECT 1 AS x', { clickhouse_settings: { readonly: '1', max_execution_time: 10 } }), [
        { x: 1 },
      ]);
    });
  });
}
