/** What every driver of the port must do, over a real store. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { isTapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { ColumnStore } from './column-store.ts';

export type StoreUnderTest = {
  /** A connection to a database of its own, which exists. */
  readonly store: ColumnStore;
  readonly database: string;
  /** Another connection to the same store, to look at it from outside. */
  readonly observer: ColumnStore;
  close(): Promise<void>;
};

export function columnStoreContract(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`ColumnStore: ${name}`, () => {
    let under: StoreUnderTest;
    before(async () => {
      under = await open();
    });
    after(() => under.close());
    const get = (): StoreUnderTest => under;
    reads(get);
    streams(get);
    writes(get);
    ends(get);
  });
}

type Get = () => StoreUnderTest;
const SLOW =
  'SELECT sum(sleepEachRow(0.05)) AS s FROM numbers(10000) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 100000000';

async function failsWith(code: ErrorCode, work: Promise<unknown>): Promise<Readonly<Record<string, unknown>>> {
  try {
    await work;
  } catch (error) {
    assert.ok(isTapedeckError(error, code), `expected ${code}, got ${String(error)}`);
    return error.details;
  }
  return assert.fail(`expected ${code}, got an answer`);
}

async function collect(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts);
}

/** Queries of the store that run now and whose text holds `mark`. */
async function running({ observer }: StoreUnderTest, mark: string): Promise<number> {
  const sql = `SELECT toUInt32(count()) AS n FROM system.processes WHERE position(query, concat('${mark.slice(0, 3)}', '${mark.slice(3)}')) > 0`;
  return (await observer.rows<{ n: number }>(sql))[0]?.n ?? -1;
}

async function untilNone(under: StoreUnderTest, mark: string): Promise<void> {
  for (let i = 0; i < 200; i++, await delay(50)) if ((await running(under, mark)) === 0) return;
  assert.fail(`the query ${mark} still runs`);
}

async function untilOne(under: StoreUnderTest, mark: string): Promise<void> {
  for (let i = 0; i < 200; i++, await delay(50)) if ((await running(under, mark)) > 0) return;
  assert.fail(`the query ${mark} never ran`);
}

/** A Native block of a UInt32 column `a` and a String column `s`. */
function block(rows: readonly (readonly [number, string])[]): Buffer {
  assert.ok(rows.length < 128 && rows.every(([, s]) => s.length < 128), 'lengths are one byte here');
  const numbers = Buffer.from(new Uint32Array(rows.map(([a]) => a)).buffer);
  const texts = rows.flatMap(([, s]) => [Buffer.from([s.length]), Buffer.from(s, 'latin1')]);
  const name = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
  return Buffer.concat([Buffer.from([2, rows.length]), name('a'), name('UInt32'), numbers, name('s'), name('String'), ...texts]);
}

function reads(get: Get): void {
  describe('rows', () => {
    test('come as objects; wide integers and odd floats as text; parameters bound', async () => {
      const sql =
        "SELECT toUInt64(18446744073709551615) AS big, nan AS n, -inf AS i, CAST(NULL, 'Nullable(String)') AS nothing, {t:String} AS t, {l:Array(UInt8)} AS l";
      const t = "quote ' back \\ tab \t line \n {x:Int8} 🙂";
      assert.deepEqual(await get().store.rows(sql, { params: { t, l: [1, 2] } }), [
        { big: '18446744073709551615', n: 'nan', i: '-inf', nothing: null, t, l: [1, 2] },
      ]);
    });

    test('no rows is an empty list; many rows are all there', async () => {
      assert.deepEqual(await get().store.rows('SELECT 1 AS x WHERE 0'), []);
      const rows = await get().store.rows<{ n: number }>('SELECT toUInt32(number) AS n FROM numbers(200000)');
      assert.equal(rows.length, 200_000);
      rows.forEach((row, i) => assert.equal(row.n, i));
    });

    test('a database and settings of one query hold for it alone', async () => {
      const { store, database } = get();
      assert.deepEqual(await store.rows('SELECT currentDatabase() AS d'), [{ d: database }]);
      assert.deepEqual(await store.rows('SELECT currentDatabase() AS d', { database: 'system' }), [{ d: 'system' }]);
      assert.deepEqual(await store.rows("SELECT toString(getSetting('max_block_size')) AS v", { settings: { max_block_size: 123 } }), [
        { v: '123' },
      ]);
      assert.notDeepEqual(await store.rows("SELECT toString(getSetting('max_block_size')) AS v"), [{ v: '123' }]);
    });

    test('a question of a stranger: read-only, capped, in a database of its own', async () => {
      const { store } = get();
      const guarded = {
        database: 'system',
        settings: { readonly: 1, max_result_rows: 10, result_overflow_mode: 'throw', max_execution_time: 5 },
      };
      assert.deepEqual(await store.rows('SELECT dummy FROM one', guarded), [{ dummy: 0 }]);
      assert.equal((await failsWith('result_too_large', store.rows('SELECT number FROM numbers(1000)', guarded)))['clickhouseCode'], 396);
      assert.equal(
        (await failsWith('sql_error', store.rows('SELECT 1 SETTINGS max_execution_time = 100', guarded)))['clickhouseCode'],
        164,
      );
      await failsWith('sql_error', store.rows("SELECT * FROM file('/etc/hostname', 'LineAsString', 'l String')", guarded));
    });

    test('errors keep the code and the whole text of ClickHouse', async () => {
      const { store } = get();
      const details = await failsWith('sql_error', store.rows('SELECT nobody'));
      assert.deepEqual([details['clickhouseCode'], details['clickhouseType']], [47, 'UNKNOWN_IDENTIFIER']);
      await assert.rejects(store.rows('SELECT (1'), /Syntax error: failed at position \d+/);
      assert.equal((await failsWith('query_timeout', store.rows(SLOW, { settings: { max_execution_time: 1 } })))['clickhouseCode'], 159);
    });

    test('an error behind the first megabytes is an error, not a short answer', async () => {
      const sql = "SELECT throwIf(number = 1000000) AS t, repeat('x', 20) AS s FROM numbers(2000000) SETTINGS max_block_size = 10000";
      assert.equal((await failsWith('sql_error', get().store.rows(sql)))['clickhouseCode'], 395);
    });
  });
}

function streams(get: Get): void {
  describe('stream', () => {
    test('gives the bytes of the format, and its media type', async () => {
      const { body, contentType } = await get().store.stream('SELECT number FROM numbers(300000)', 'RowBinary');
      const bytes = await collect(body);
      assert.equal(bytes.length, 300_000 * 8);
      assert.equal(bytes.readBigUInt64LE(bytes.length - 8), 299_999n);
      assert.equal(contentType, 'application/octet-stream');
      const csv = await get().store.stream('SELECT 1', 'CSV');
      assert.match(csv.contentType, /^text\/csv/);
      assert.equal((await collect(csv.body)).toString(), '1\n');
    });

    test('an error behind the first bytes is thrown by the reader', async () => {
      const { body } = await get().store.stream(
        'SELECT throwIf(number = 3000000) FROM numbers(4000000) SETTINGS max_block_size = 10000',
        'TSV',
      );
      assert.equal((await failsWith('sql_error', collect(body)))['clickhouseCode'], 395);
    });

    test('an error before them by the call', async () => {
      await failsWith('sql_error', get().store.stream('SELECT nobody', 'TSV'));
    });

    test('a reader that stops ends the query', async () => {
      const { body } = await get().store.stream("SELECT 'stops7' AS m, number FROM numbers(100000000000)", 'TSV');
      for await (const part of body) {
        assert.ok(part.length > 0);
        break;
      }
      await untilNone(get(), 'stops7');
    });

    test('a reader that sleeps holds the query, not its rows', async () => {
      const { body } = await get().store.stream("SELECT number, repeat('y', 1000) AS s FROM numbers(100000)", 'TSV');
      let size = 0;
      for await (const part of body) {
        if (size === 0) await delay(300);
        size += part.length;
      }
      assert.ok(size > 100_000_000);
    });

    test('an aborted signal ends the stream and the query', async () => {
      const stop = new AbortController();
      const { body } = await get().store.stream("SELECT 'stops8' AS m, number FROM numbers(100000000000)", 'TSV', { signal: stop.signal });
      const reading = (async () => {
        for await (const part of body) if (part.length > 0) stop.abort();
      })();
      await failsWith('aborted', reading);
      await untilNone(get(), 'stops8');
    });
  });
}

function writes(get: Get): void {
  describe('writes', () => {
    test('one block is one part, and the same block again is legal', async () => {
      const { store } = get();
      await store.command('CREATE TABLE parts (a UInt32, s String) ENGINE = MergeTree ORDER BY a');
      await store.command('SYSTEM STOP MERGES parts');
      const rows = Array.from({ length: 100 }, (_, a) => [a, `row ${a}`] as const);
      await store.insertNative('parts', ['a', 's'], block(rows));
      await store.insertNative('parts', ['a', 's'], block(rows));
      const sql =
        "SELECT toUInt32(count()) AS parts, toUInt32(sum(rows)) AS n FROM system.parts WHERE database = currentDatabase() AND table = 'parts' AND active";
      assert.deepEqual(await store.rows(sql), [{ parts: 2, n: 200 }]);
    });

    test('columns are matched by name; bytes are bytes', async () => {
      const { store } = get();
      await store.command('CREATE TABLE named (s String, `b c` UInt8 DEFAULT 9, a UInt32) ENGINE = MergeTree ORDER BY a');
      await store.insertNative('named', ['a', 's'], block([[5, "\x00\xff\n\t\\'"]]));
      assert.deepEqual(await store.rows('SELECT a, hex(s) AS s, `b c` AS b FROM named'), [{ a: 5, s: '00FF0A095C27', b: 9 }]);
    });

    test('a block that does not fit is refused whole, with the code, without its data in the message', async () => {
      const { store } = get();
      await store.command('CREATE TABLE whole (a UInt32, s String) ENGINE = MergeTree ORDER BY a');
      const whole = block([
        [1, 'secret-one'],
        [2, 'secret-two'],
      ]);
      const error = await store.insertNative('whole', ['a', 's'], whole.subarray(0, whole.length - 3)).catch((e: unknown) => e);
      assert.ok(isTapedeckError(error, 'store_error'));
      assert.equal(error.details['clickhouseCode'], 33);
      assert.doesNotMatch(error.message, /secret/);
      assert.equal((await failsWith('store_error', store.insertNative('nowhere', ['a', 's'], whole)))['clickhouseCode'], 60);
      assert.deepEqual(await store.rows('SELECT a FROM whole'), []);
    });

    test('a block of 64 MB', async () => {
      const { store } = get();
      await store.command('CREATE TABLE large (a UInt8) ENGINE = MergeTree ORDER BY tuple()');
      const rows = 64 * 1024 * 1024;
      // 2^26 rows in LEB128 are three continuation bytes and 32.
      const head = Buffer.concat([Buffer.from([1, 0x80, 0x80, 0x80, 0x20, 1]), Buffer.from('a'), Buffer.from([5]), Buffer.from('UInt8')]);
      await store.insertNative('large', ['a'], Buffer.concat([head, Buffer.alloc(rows, 1)]));
      assert.deepEqual(await store.rows('SELECT sum(a) AS s FROM large'), [{ s: String(rows) }]);
    });

    test('an insert that takes long after other requests on the connection', async () => {
      const { store } = get();
      await store.command('CREATE TABLE lingering (a UInt32, s String) ENGINE = MergeTree ORDER BY a');
      await store.command('CREATE TABLE lingered (n UInt8) ENGINE = Memory');
      await store.command('CREATE MATERIALIZED VIEW lingers TO lingered AS SELECT sleepEachRow(1) AS n FROM lingering');
      await store.insertNative(
        'lingering',
        ['a', 's'],
        block([
          [1, ''],
          [2, ''],
          [3, ''],
        ]),
      );
      assert.deepEqual(await store.rows('SELECT toUInt32(count()) AS n FROM lingered'), [{ n: 3 }]);
    });

    test('a command runs; its errors carry the code', async () => {
      const { store } = get();
      await store.command('CREATE TABLE made (a UInt8) ENGINE = Memory');
      await store.command('INSERT INTO made SELECT {x:UInt8}', { params: { x: 4 } });
      assert.deepEqual(await store.rows('SELECT a FROM made'), [{ a: 4 }]);
      assert.equal((await failsWith('store_error', store.command('CREATE TABLE made (a UInt8) ENGINE = Memory')))['clickhouseCode'], 57);
    });

    test('a ping is answered', async () => {
      await get().store.ping();
    });
  });
}

function ends(get: Get): void {
  describe('deadlines and aborts', () => {
    test('an aborted query is gone from the server', async () => {
      const stop = new AbortController();
      const asked = failsWith('aborted', get().store.rows(SLOW.replace('SELECT', "SELECT 'stops1' AS m,"), { signal: stop.signal }));
      await untilOne(get(), 'stops1');
      stop.abort();
      await asked;
      await untilNone(get(), 'stops1');
    });

    test('an aborted command too', async () => {
      const { store } = get();
      await store.command('CREATE TABLE slow (s UInt64) ENGINE = Memory');
      const stop = new AbortController();
      const asked = failsWith(
        'aborted',
        store.command(
          `INSERT INTO slow ${SLOW.replace('SELECT', "SELECT 'stops2' = '' AS m,").replace('AS s ', '')}`.replace(
            "'stops2' = '' AS m,",
            "length('stops2') +",
          ),
          { signal: stop.signal },
        ),
      );
      await untilOne(get(), 'stops2');
      stop.abort();
      await asked;
      await untilNone(get(), 'stops2');
    });

    test('a signal that has aborted already asks nothing', async () => {
      await failsWith('aborted', get().store.rows('SELECT 1', { signal: AbortSignal.abort() }));
    });

    test('a call lets go of its signal, however it ends', async () => {
      const { store } = get();
      const { signal } = new AbortController();
      await store.rows('SELECT 1', { signal });
      await store.command('SELECT 1', { signal });
      await collect((await store.stream('SELECT 1', 'TSV', { signal })).body);
      await store.ping(signal);
      await failsWith('sql_error', store.rows('SELECT nothing', { signal }));
      assert.deepEqual(getEventListeners(signal, 'abort'), []);
    });

    test('a deadline ends the query on the server', async () => {
      const sql = SLOW.replace('SELECT', "SELECT 'stops3' AS m,");
      await assert.rejects(get().store.rows(sql, { timeoutMs: 1000 }), (error) =>
        isTapedeckError(error, 'query_timeout', 'deadline_exceeded'),
      );
      await untilNone(get(), 'stops3');
    });

    test('after close every call is refused as closed', async () => {
      const { observer } = get();
      await observer.close();
      await observer.close();
      await failsWith('closed', observer.rows('SELECT 1'));
      await failsWith('closed', observer.command('SELECT 1'));
    });
  });
}
