import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Access } from './access.contract.ts';
import { bytesOf, clickhouseError } from './access.contract.ts';

export function formats({ client, connect }: Access): void {
  describe('formats and compression', () => {
    test('JSONEachRow as a stream of rows', async () => {
      const result = await client().query({ query: 'SELECT number FROM numbers(100000)', format: 'JSONEachRow' });
      let count = 0;
      let sum = 0;
      for await (const rows of result.stream<{ number: string }>()) {
        for (const row of rows) {
          count++;
          sum += Number(row.json().number);
        }
      }
      assert.deepEqual([count, sum], [100_000, 4_999_950_000]);
    });

    test('binary formats keep their one header and footer', async () => {
      const read = async (format: string): Promise<Buffer> => {
        const { stream } = await client().exec({ query: `SELECT number, toString(number) AS s FROM numbers(200000) FORMAT ${format}` });
        return bytesOf(stream);
      };
      const arrow = await read('ArrowStream');
      assert.equal(arrow.readInt32LE(0), -1);
      assert.equal(arrow.readInt32LE(arrow.length - 4), 0);
      assert.equal(arrow.subarray(4).indexOf(Buffer.from('number')), arrow.subarray(4).lastIndexOf(Buffer.from('number')));
      const parquet = await read('Parquet');
      assert.equal(parquet.toString('latin1', 0, 4), 'PAR1');
      assert.equal(parquet.toString('latin1', parquet.length - 4), 'PAR1');
      const native = await read('Native');
      assert.equal(native[0], 2);
      assert.ok(native.length > 200_000 * 8);
    });

    test('text formats with a header have it once', async () => {
      const result = await client().query({ query: 'SELECT number AS n FROM numbers(150000)', format: 'CSVWithNames' });
      const lines = (await result.text()).trimEnd().split('\n');
      assert.equal(lines.length, 150_001);
      assert.equal(lines.filter((line) => line === '"n"').length, 1);
    });

    for (const codec of ['gzip', 'zstd'] as const) {
      test(`${codec} both ways`, async () => {
        const packed = connect({ compression: { request: { codec }, response: { codec } } });
        await packed.command({ query: `CREATE TABLE packed_${codec} (a UInt32, s String) ENGINE = MergeTree ORDER BY a` });
        const values = Array.from({ length: 20_000 }, (_, a) => ({ a, s: `row ${a}` }));
        await packed.insert({ table: `packed_${codec}`, values, format: 'JSONEachRow' });
        const result = await packed.query({ query: `SELECT * FROM packed_${codec} ORDER BY a`, format: 'JSONEachRow' });
        assert.equal(result.response_headers['content-encoding'], codec);
        assert.deepEqual(await result.json(), values);
        const broken = await clickhouseError(packed.query({ query: 'SELECT throwIf(1)' }));
        assert.equal(broken.code, '395');
        await packed.close();
      });
    }
  });
}
