import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Access } from './access.contract.ts';
import { clickhouseError, newMark, runningQueries, until } from './access.contract.ts';

const ENDLESS =
  'SELECT sum(sleepEachRow(0.05)) FROM numbers(100000) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 100000000';

export function cancelling({ client }: Access): void {
  const stopping = { cancel_http_readonly_queries_on_client_close: 1 } as const;
  describe('cancelling', () => {
    test('before the first byte', async () => {
      const mark = newMark();
      const stop = new AbortController();
      const asked = client().query({
        query: `${ENDLESS.replace('SELECT', `SELECT '${mark}',`)}`,
        abort_signal: stop.signal,
        clickhouse_settings: stopping,
      });
      const failed = assert.rejects(asked);
      await until('the query runs', async () => (await runningQueries(client(), mark)) === 1);
      stop.abort();
      await failed;
      await until('the query is gone', async () => (await runningQueries(client(), mark)) === 0);
    });

    test('in the middle of a stream', async () => {
      const mark = newMark();
      const result = await client().query({
        query: `SELECT '${mark}' AS m, number, repeat('x', 100) AS s FROM numbers(1000000000)`,
        format: 'JSONEachRow',
        clickhouse_settings: stopping,
      });
      let seen = 0;
      for await (const rows of result.stream()) {
        seen += rows.length;
        if (seen > 1000) break;
      }
      await until('the query is gone', async () => (await runningQueries(client(), mark)) === 0);
    });

    test('a stream that is left unread', async () => {
      const mark = newMark();
      const result = await client().query({
        query: `SELECT '${mark}' AS m, number FROM numbers(1000000000)`,
        format: 'JSONEachRow',
        clickhouse_settings: stopping,
      });
      await delay(200);
      result.close();
      await until('the query is gone', async () => (await runningQueries(client(), mark)) === 0);
    });

    test('KILL QUERY by query id', async () => {
      const query_id = randomUUID();
      const mark = newMark();
      const asked = clickhouseError(client().query({ query: ENDLESS.replace('SELECT', `SELECT '${mark}',`), query_id }));
      await until('the query runs', async () => (await runningQueries(client(), mark)) === 1);
      await client().command({ query: `KILL QUERY WHERE query_id = '${query_id}' ASYNC` });
      assert.equal((await asked).code, '394');
    });

    test('max_execution_time', async () => {
      const error = await clickhouseError(client().query({ query: ENDLESS, clickhouse_settings: { max_execution_time: 1 } }));
      assert.equal(error.code, '159');
    });
  });
}
