import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Access } from './access.contract.ts';
import { clickhouseError, json } from './access.contract.ts';

export function parameters({ client }: Access): void {
  describe('parameters', () => {
    test('of every kind', async () => {
      const query_params = {
        text: 'tab\there, line\nfeed, \\back\\ and \'quote\' "and" `tick` 🙂',
        empty: '',
        nothing: null,
        big: '18446744073709551615',
        negative: -12.5,
        flag: true,
        list: ["a'b", 'c\\d', ''],
        numbers: [1, 2, 3],
        pairs: { one: 1, two: 2 },
        time: new Date('2026-01-02T03:04:05.678Z'),
      };
      const query = `SELECT {text:String} AS text, {empty:String} AS empty, {nothing:Nullable(String)} AS nothing, {big:UInt64} AS big, {negative:Float64} AS negative,
        {flag:Bool} AS flag, {list:Array(String)} AS list, {numbers:Array(UInt8)} AS numbers, {pairs:Map(String, UInt8)} AS pairs,
        toUnixTimestamp64Milli({time:DateTime64(3)}) AS time, dummy FROM system.{table:Identifier}`;
      assert.deepEqual(await json(client(), query, { query_params: { ...query_params, table: 'one' } }), [
        {
          ...query_params,
          time: String(query_params.time.getTime()),
          dummy: 0,
        },
      ]);
    });

    test('in a form', async () => {
      const value = 'x'.repeat(200_000);
      const query = 'SELECT length({long:String}) AS n, {short:UInt8} AS s';
      assert.deepEqual(await json(client(), query, { query_params: { long: value, short: 7 }, use_multipart_params: true }), [
        { n: '200000', s: 7 },
      ]);
    });

    test('do not leak, and one that is missing is an error', async () => {
      assert.deepEqual(await json(client(), 'SELECT {x:UInt8} AS x', { query_params: { x: 1 } }), [{ x: 1 }]);
      assert.equal((await clickhouseError(json(client(), 'SELECT {x:UInt8} AS x'))).code, '456');
    });
  });
}

export function sessions({ client, connect }: Access): void {
  describe('sessions', () => {
    test('temporary tables and SET stay; settings of one query do not', async () => {
      const session = connect({ session_id: randomUUID() });
      await session.command({ query: 'CREATE TEMPORARY TABLE mine (a UInt8)' });
      await session.command({ query: 'INSERT INTO mine VALUES (7)' });
      await session.command({ query: 'SET max_block_size = 777' });
      assert.deepEqual(await json(session, 'SELECT a FROM mine'), [{ a: 7 }]);
      const value = async (settings = {}): Promise<unknown> =>
        (await json(session, "SELECT toString(getSetting('max_block_size')) AS v", { clickhouse_settings: settings }))[0]?.['v'];
      assert.equal(await value(), '777');
      assert.equal(await value({ max_block_size: '888' }), '888');
      assert.equal(await value(), '777');
      await json(session, 'SELECT {p:UInt8} AS p', { query_params: { p: 3 } });
      assert.equal((await clickhouseError(json(session, 'SELECT {p:UInt8} AS p'))).code, '456');
      await session.close();
      assert.equal((await clickhouseError(json(client(), 'SELECT a FROM mine'))).code, '60');
    });

    test('one request at a time', async () => {
      const session_id = randomUUID();
      const slow = json(client(), 'SELECT sleep(1.5) AS s', { session_id });
      await delay(500);
      assert.equal((await clickhouseError(json(client(), 'SELECT 1', { session_id }))).code, '373');
      await slow;
      assert.deepEqual(await json(client(), 'SELECT 1 AS x', { session_id }), [{ x: 1 }]);
    });

    test('the next request may follow at once', async () => {
      const session_id = randomUUID();
      for (let i = 0; i < 50; i++) assert.deepEqual(await json(client(), `SELECT ${i} AS i`, { session_id }), [{ i }]);
    });
  });
}
