import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Access } from './access.contract.ts';
import { bytesOf, clickhouseError, json } from './access.contract.ts';

export function failures({ client, connect }: Access): void {
  describe('errors', () => {
    const cases: [string, string, string, string][] = [
      ['syntax', 'selec 1', '62', 'SYNTAX_ERROR'],
      ['unknown table', 'SELECT * FROM nowhere', '60', 'UNKNOWN_TABLE'],
      ['unknown column', 'SELECT nobody FROM system.one', '47', 'UNKNOWN_IDENTIFIER'],
      ['unknown function', 'SELECT nofunction(1)', '46', 'UNKNOWN_FUNCTION'],
      ['unknown database', 'SELECT * FROM nodb.t', '81', 'UNKNOWN_DATABASE'],
      ['at run time', "SELECT throwIf(number = 3, 'three') FROM numbers(10)", '395', 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'],
      ['a type', "SELECT toUInt8('x')", '6', 'CANNOT_PARSE_TEXT'],
      ['multi-statements', 'SELECT 1; SELECT 2', '62', 'SYNTAX_ERROR'],
      ['unknown format', 'SELECT 1 FORMAT Nope', '73', 'UNKNOWN_FORMAT'],
    ];
    for (const [what, query, code, type] of cases) {
      test(what, async () => {
        const error = await clickhouseError(
          client()
            .exec({ query })
            .then(({ stream }) => bytesOf(stream)),
        );
        assert.deepEqual([error.code, error.type], [code, type], error.message);
      });
    }

    test('unknown setting', async () => {
      const error = await clickhouseError(json(client(), 'SELECT 1', { clickhouse_settings: { no_such_setting: 1 } }));
      assert.deepEqual([error.code, error.type], ['115', 'UNKNOWN_SETTING']);
    });

    test('a wrong password, and none', async () => {
      for (const password of ['wrong', '']) {
        const stranger = connect({ password, database: 'default' });
        const error = await clickhouseError(json(stranger, 'SELECT 1'));
        assert.ok(['516', '194'].includes(error.code), error.message);
        await stranger.close();
      }
    });

    test('behind the first rows', async () => {
      // always an error, never a short answer; the client reads the code only when the tag of the exception arrives in one piece of the stream
      const codes: (string | undefined)[] = [];
      for (let attempt = 0; attempt < 3 && !codes.includes('395'); attempt++) {
        const result = await client().query({
          query: 'SELECT number, throwIf(number = 3000000) AS t FROM numbers(10000000) SETTINGS max_block_size = 65505',
          format: 'JSONEachRow',
        });
        let seen = 0;
        const error = await clickhouseError(
          (async () => {
            for await (const rows of result.stream()) seen += rows.length;
          })(),
        );
        codes.push(error.code);
        assert.ok(seen > 100_000, `${seen} rows came before`);
      }
      assert.ok(codes.includes('395'), `codes: ${codes.join(', ')}`);
      assert.deepEqual(await json(client(), 'SELECT 1 AS x'), [{ x: 1 }]);
    });

    test('the same query id twice', async () => {
      const query_id = randomUUID();
      const slow = client().query({ query: 'SELECT sleep(1)', query_id });
      await delay(300);
      assert.equal((await clickhouseError(client().query({ query: 'SELECT 1', query_id }))).code, '216');
      await (await slow).text();
    });
  });
}
