import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import type { Access } from './access.contract.ts';
import { bytesOf, clickhouseError, json, nativeBlock } from './access.contract.ts';

export function inserts({ client }: Access): void {
  describe('inserts', () => {
    test('a Native block from a stream', async () => {
      await client().command({ query: 'CREATE TABLE native (a UInt32) ENGINE = MergeTree ORDER BY a' });
      const { stream } = await client().exec({
        query: 'INSERT INTO native FORMAT Native',
        values: Readable.from([nativeBlock([3, 1]).subarray(0, 5), nativeBlock([3, 1]).subarray(5)]),
      });
      await bytesOf(stream);
      assert.deepEqual(await json(client(), 'SELECT a FROM native ORDER BY a'), [{ a: 1 }, { a: 3 }]);
    });

    test('half a Native block is refused and nothing of it is stored', async () => {
      await client().command({ query: 'CREATE TABLE half (a UInt32) ENGINE = MergeTree ORDER BY a' });
      const block = nativeBlock([1, 2, 3]);
      const error = await clickhouseError(
        client().exec({ query: 'INSERT INTO half FORMAT Native', values: Readable.from([block.subarray(0, block.length - 2)]) }),
      );
      assert.equal(error.code, '33');
      assert.deepEqual(await json(client(), 'SELECT count() AS n FROM half'), [{ n: '0' }]);
    });

    test('a stream of rows; defaults of columns that are not named', async () => {
      await client().command({ query: "CREATE TABLE streamed (a UInt32, s String DEFAULT 'none') ENGINE = MergeTree ORDER BY a" });
      const rows = (function* () {
        for (let a = 0; a < 5000; a++) yield { a };
      })();
      await client().insert({
        table: 'streamed',
        values: Readable.from(rows, { objectMode: true }),
        format: 'JSONEachRow',
        columns: ['a'],
      });
      assert.deepEqual(await json(client(), 'SELECT count() AS n, any(s) AS s, max(a) AS m FROM streamed'), [
        { n: '5000', s: 'none', m: 4999 },
      ]);
    });

    test('VALUES in the text, with expressions, and INSERT SELECT', async () => {
      await client().command({ query: 'CREATE TABLE textual (a UInt32, s String) ENGINE = MergeTree ORDER BY a' });
      await client().command({ query: "INSERT INTO textual (a, s) VALUES (1, 'x;y'), (1 + 1, concat('a', 'b'))" });
      await client().command({ query: 'INSERT INTO textual SELECT number + 10, toString(number) FROM numbers(2)' });
      assert.deepEqual(await json(client(), 'SELECT a, s FROM textual ORDER BY a'), [
        { a: 1, s: 'x;y' },
        { a: 2, s: 'ab' },
        { a: 10, s: '0' },
        { a: 11, s: '1' },
      ]);
    });

    test('an insert is stored when it returns, whatever async_insert says', async () => {
      await client().command({ query: 'CREATE TABLE stored (a UInt32) ENGINE = MergeTree ORDER BY a' });
      for (let a = 0; a < 3; a++) {
        await client().insert({
          table: 'stored',
          values: [{ a }],
          format: 'JSONEachRow',
          clickhouse_settings: { async_insert: 1, wait_for_async_insert: 1 },
        });
        assert.deepEqual(await json(client(), 'SELECT count() AS n FROM stored'), [{ n: String(a + 1) }]);
      }
    });
  });
}
