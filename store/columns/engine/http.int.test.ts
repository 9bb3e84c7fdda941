/** The engine's HTTP interface beyond what one client uses: credentials, methods, bodies, encodings, forms, limits. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { brotliCompressSync, brotliDecompressSync, deflateSync, gzipSync, inflateSync, zstdCompressSync } from 'node:zlib';
import { writeSlotsFor } from './child-messages.ts';
import { createClickHouseFrameEncoder, decodeClickHouseFrames } from './clickhouse-frames.ts';
import { nativeBlock } from './conformance/access.contract.ts';
import type { TestEngine } from './engine-for-tests.ts';
import { connectTo, startTestEngine } from './engine-for-tests.ts';
import { createLz4FrameEncoder, decodeLz4Frames } from './lz4-frame.ts';

let engine: TestEngine;
const SLOTS = 4;

before(async () => {
  engine = await startTestEngine({ slots: SLOTS });
  await ask('CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a');
});
after(() => engine.close());

type Answer = { status: number; code: string | null; text: string; headers: Headers; bytes: Buffer };
type Options = {
  method?: string;
  params?: Record<string, string>;
  headers?: Record<string, string>;
  body?: NonNullable<RequestInit['body']>;
  isStranger?: boolean;
};

async function send(options: Options): Promise<Answer> {
  const url = new URL(engine.url);
  for (const [name, value] of Object.entries(options.params ?? {})) url.searchParams.set(name, value);
  const credentials = options.isStranger === true ? {} : { 'x-clickhouse-user': engine.user, 'x-clickhouse-key': engine.password };
  const response = await fetch(url, {
    method: options.method ?? 'POST',
    headers: { 'accept-encoding': 'identity', ...credentials, ...options.headers },
    ...(options.body === undefined ? {} : { body: options.body }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  return {
    status: response.status,
    code: response.headers.get('x-clickhouse-exception-code'),
    text: bytes.toString(),
    headers: response.headers,
    bytes,
  };
}

async function ask(sql: string, params: Record<string, string> = {}): Promise<string> {
  const answer = await send({ body: sql, params });
  assert.equal(answer.status, 200, answer.text);
  return answer.text;
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

describe('credentials', () => {
  test('by headers, basic authentication and address; nothing else', async () => {
    const { user, password } = engine;
    const basic = (name: string, key: string): Record<string, string> => ({
      authorization: `Basic ${Buffer.from(`${name}:${key}`).toString('base64')}`,
    });
    const good: Options[] = [
      { headers: basic(user, password) },
      { params: { user, password } },
      { headers: { 'x-clickhouse-user': user, 'x-clickhouse-key': password } },
    ];
    const bad: Options[] = [
      {},
      { headers: basic(user, `${password}x`) },
      { headers: basic('default', password) },
      { headers: basic(user, '') },
      { params: { user } },
      { params: { user: 'default', password: '' } },
      { headers: { ...basic(user, password), 'x-clickhouse-user': user, 'x-clickhouse-key': password } },
    ];
    for (const options of good) assert.equal((await send({ ...options, isStranger: true, body: 'SELECT 1' })).text, '1\n');
    for (const options of bad) {
      const answer = await send({ ...options, isStranger: true, body: 'SELECT 1' });
      assert.deepEqual([answer.status, answer.code], [403, '516'], JSON.stringify(options));
    }
  });

  test('life signs need none, other paths are not there', async () => {
    for (const path of ['/ping', '/', '/replicas_status']) assert.equal(await (await fetch(engine.url + path)).text(), 'Ok.\n');
    assert.equal((await fetch(`${engine.url}/play`)).status, 404);
  });
});

describe('queries', () => {
  test('in the address, in the body, in both', async () => {
    assert.equal((await send({ method: 'GET', params: { query: 'SELECT 1' } })).text, '1\n');
    assert.equal((await send({ params: { query: 'SELECT 1' } })).text, '1\n');
    assert.equal((await send({ params: { query: 'SELECT 1 + ' }, body: '1' })).text, '2\n');
    assert.equal((await send({ params: { query: 'SELECT 1 -- a comment' }, body: '+ 1' })).text, '2\n');
    assert.equal((await send({ body: '' })).code, '62');
  });

  test('GET is read-only, but takes settings', async () => {
    const get = async (query: string, params = {}): Promise<Answer> => send({ method: 'GET', params: { query, ...params } });
    assert.equal((await get('CREATE TABLE no (a UInt8) ENGINE = Memory')).code, '164');
    assert.equal((await get('INSERT INTO t VALUES (1)')).code, '164');
    assert.equal((await get('SELECT 1 SETTINGS readonly = 0')).code, '164');
    assert.equal((await get('SELECT 1', { max_threads: '1' })).text, '1\n');
    assert.equal((await get('SELECT 1', { session_id: 'x' })).code, '164');
  });

  test('the default format, by parameter and by header', async () => {
    assert.equal(await ask('SELECT 1 AS a, 2 AS b'), '1\t2\n');
    assert.equal(await ask('SELECT 1 AS a, 2 AS b', { default_format: 'CSV' }), '1,2\n');
    assert.equal((await send({ body: 'SELECT 1 AS a', headers: { 'x-clickhouse-format': 'JSONEachRow' } })).text, '{"a":1}\n');
    assert.equal(await ask('SELECT 1 AS a FORMAT TSVWithNames', { default_format: 'CSV' }), 'a\n1\n');
    assert.equal((await send({ body: 'SELECT 1', params: { default_format: "TSV INTO OUTFILE '/tmp/x'" } })).code, '73');
  });

  test('an unknown setting, a setting that breaks out, an unknown database', async () => {
    assert.equal((await send({ body: 'SELECT 1', params: { no_such: '1' } })).code, '115');
    assert.equal((await send({ body: 'SELECT 1', params: { 'max_threads = 1, readonly': '0' } })).code, '115');
    assert.equal((await send({ body: 'SELECT 1', params: { max_threads: "1', readonly='0" } })).status, 400);
    assert.equal((await send({ body: 'SELECT 1', params: { "param_x = 'a', max_threads": '0' } })).code, '62');
    assert.equal((await send({ body: 'SELECT 1', params: { database: 'no`; DROP TABLE t' } })).code, '81');
    assert.equal(await ask("SELECT {x:String} = '\\'', 1", { param_x: "'" }), '1\t1\n');
  });

  test('an error behind the first bytes breaks the transfer for a client that would not look', async () => {
    const body = 'SELECT number, throwIf(number = 3000000) FROM numbers(4000000) SETTINGS max_block_size = 10000';
    await assert.rejects(send({ body }));
    // Held back to its end, the same query is an ordinary error.
    const short = 'SELECT throwIf(number = 30000) FROM numbers(40000) SETTINGS max_block_size = 1000';
    assert.equal((await send({ body: short, params: { wait_end_of_query: '1' } })).code, '395');
    assert.equal((await send({ body: short })).code, '395');
  });

  test('named sessions end after their time', async () => {
    await ask('SET max_block_size = 5', { session_id: 'short', session_timeout: '1' });
    assert.equal(
      await ask("SELECT getSetting('max_block_size')", { session_id: 'short', session_check: '1', session_timeout: '1' }),
      '5\n',
    );
    await delay(1600);
    assert.equal((await send({ body: 'SELECT 1', params: { session_id: 'short', session_check: '1' } })).code, '372');
  });
});

describe('bodies', () => {
  const insert = 'INSERT INTO t FORMAT Native';
  const rows = async (): Promise<number> => Number(await ask('SELECT count() FROM t'));

  test('every content encoding, and frames', async () => {
    const block = nativeBlock([1, 2, 3]);
    const lz4 = await collect(new PassThrough().end(block).pipe(createLz4FrameEncoder()));
    const encodings: [string, Buffer][] = [
      ['gzip', gzipSync(block)],
      ['deflate', deflateSync(block)],
      ['br', brotliCompressSync(block)],
      ['zstd', zstdCompressSync(block)],
      ['lz4', lz4],
    ];
    for (const [encoding, body] of encodings) {
      const count = await rows();
      const answer = await send({ params: { query: insert }, headers: { 'content-encoding': encoding }, body: new Uint8Array(body) });
      assert.equal(answer.status, 200, `${encoding}: ${answer.text}`);
      assert.equal((await rows()) - count, 3, encoding);
      const cut = await send({
        params: { query: insert },
        headers: { 'content-encoding': encoding },
        body: new Uint8Array(body.subarray(0, body.length - 3)),
      });
      assert.notEqual(cut.status, 200, `${encoding}, cut`);
      assert.equal((await rows()) - count, 3, `${encoding}, cut`);
    }
    const frames = await collect(new PassThrough().end(block).pipe(createClickHouseFrameEncoder()));
    assert.equal((await send({ params: { query: insert, decompress: '1' }, body: new Uint8Array(frames) })).status, 200);
    frames[20] = (frames[20] as number) ^ 1;
    assert.equal((await send({ params: { query: insert, decompress: '1' }, body: new Uint8Array(frames) })).code, '271');
    assert.equal((await send({ params: { query: insert }, headers: { 'content-encoding': 'snappy' }, body: 'x' })).code, '48');
  });

  test('statement and binary data in one body', async () => {
    const count = await rows();
    const body = Buffer.concat([Buffer.from('INSERT INTO t (a) SETTINGS async_insert = 1 FORMAT Native\n'), nativeBlock([10, 13])]);
    assert.equal((await send({ body: new Uint8Array(body) })).status, 200);
    assert.equal((await rows()) - count, 2);
  });

  test('a client that dies in the middle of a body leaves nothing', async () => {
    const count = await rows();
    const stop = new AbortController();
    const body = new ReadableStream({
      start: async (controller) => {
        controller.enqueue(Buffer.from('{"a":1}\n'.repeat(1000)));
        await delay(200);
        stop.abort();
      },
    });
    const url = `${engine.url}/?query=${encodeURIComponent('INSERT INTO t FORMAT JSONEachRow')}`;
    const headers = { 'x-clickhouse-user': engine.user, 'x-clickhouse-key': engine.password };
    await assert.rejects(fetch(url, { method: 'POST', body, headers, signal: stop.signal, duplex: 'half' } as RequestInit));
    await delay(200);
    assert.equal(await rows(), count);
  });

  test('the inbox takes only what lies in it, from those who may', async () => {
    assert.equal((await fetch(`${engine.url}/inbox`)).status, 403);
    const inbox = join(engine.directory, 'spool');
    const name = randomUUID();
    await writeFile(join(inbox, name), nativeBlock([5, 6]));
    const from = async (file: string): Promise<Answer> => send({ params: { query: insert }, headers: { 'x-tapedeck-inbox-file': file } });
    const count = await rows();
    assert.equal((await from(`../spool/${name}`)).code, '36');
    assert.equal((await from('/etc/hostname')).code, '36');
    assert.equal((await from(name)).status, 200);
    assert.equal((await rows()) - count, 2);
    assert.equal((await from(name)).code, '107');
  });

  test('answers in every encoding', async () => {
    const body = 'SELECT number FROM numbers(50000)';
    const plain = await ask(body);
    // fetch undoes gzip, deflate, br and zstd by itself.
    for (const encoding of ['gzip', 'deflate', 'br', 'zstd']) {
      const answer = await send({ body, headers: { 'accept-encoding': encoding } });
      assert.equal(answer.headers.get('content-encoding'), encoding);
      assert.equal(undone(answer.bytes, encoding, plain), plain, encoding);
    }
    const lz4 = await send({ body, headers: { 'accept-encoding': 'lz4' } });
    assert.equal(lz4.headers.get('content-encoding'), 'lz4');
    assert.equal((await collect(decodeLz4Frames(one(lz4.bytes)))).toString(), plain);
    const frames = await send({ body, params: { compress: '1' }, headers: { 'accept-encoding': 'gzip' } });
    assert.equal(frames.headers.get('content-encoding'), null);
    assert.equal((await collect(decodeClickHouseFrames(one(frames.bytes)))).toString(), plain);
    const off = await send({ body, params: { enable_http_compression: '0' }, headers: { 'accept-encoding': 'gzip' } });
    assert.equal(off.headers.get('content-encoding'), null);
    assert.equal(off.text, plain);
  });

  function undone(bytes: Buffer, encoding: string, plain: string): string {
    if (bytes.length === plain.length) return bytes.toString();
    return (encoding === 'br' ? brotliDecompressSync(bytes) : inflateSync(bytes)).toString();
  }

  test('forms: fields, parameters and external tables', async () => {
    const form = new FormData();
    form.set('query', 'SELECT a, {p:String} AS p FROM ids WHERE a IN (SELECT id FROM other) ORDER BY a');
    form.set('param_p', 'über');
    form.set('ids', new Blob([Buffer.from('1\n2\n3\n')]), 'ids');
    form.set('ids_structure', 'a UInt32');
    form.set('other', new Blob([Buffer.from('2\n3\n4\n')]), 'other.csv');
    const answer = await send({ body: form, params: { other_structure: 'id UInt32', other_format: 'CSV' } });
    assert.equal(answer.text, '2\tüber\n3\tüber\n');
    assert.equal((await send({ body: 'SELECT * FROM ids' })).code, '60');
  });

  test('external tables in a session are gone after the request, and typed without names', async () => {
    const form = new FormData();
    form.set('temp', new Blob([Buffer.from('7\tx\n')]), 'temp');
    const params = { session_id: 'external', query: 'SELECT _1, _2 FROM temp', temp_types: 'UInt8,String' };
    assert.equal((await send({ body: form, params })).text, '7\tx\n');
    assert.equal((await send({ body: form, params })).text, '7\tx\n');
    assert.equal((await send({ body: 'SELECT * FROM temp', params: { session_id: 'external' } })).code, '60');
    const undescribed = new FormData();
    undescribed.set('temp', new Blob(['x']), 'temp');
    assert.equal((await send({ body: undescribed, params: { query: 'SELECT 1' } })).code, '36');
  });
});

describe('slots', () => {
  test('more queries than slots wait; none is lost; every slot comes back whatever happens', async () => {
    const outcome = async (i: number): Promise<string> => {
      const stop = new AbortController();
      const headers = { 'x-clickhouse-user': engine.user, 'x-clickhouse-key': engine.password };
      const statements = [
        'SELECT 1',
        'SELECT nobody',
        'SELECT throwIf(number = 200000) FROM numbers(300000) SETTINGS max_block_size = 1000',
        'SELECT number FROM numbers(1000000)',
        'SELECT sleep(0.05)',
        'CREATE TABLE t (a UInt8) ENGINE = Memory',
        'INSERT INTO t FORMAT JSONEachRow {"a":',
        'SELECT 1 FORMAT Nope',
        'KILL QUERY WHERE query_id = 5',
      ];
      if (i % 4 === 3) setTimeout(() => stop.abort(), (i * 7) % 60);
      try {
        const response = await fetch(engine.url, {
          method: 'POST',
          headers,
          body: statements[i % statements.length] as string,
          signal: stop.signal,
        });
        return `${response.status} ${(await response.text()).length}`;
      } catch {
        return 'aborted';
      }
    };
    const outcomes = await Promise.all(Array.from({ length: 90 }, (_, i) => outcome(i)));
    assert.ok(outcomes.filter((o) => o.startsWith('200')).length > 15);
    // As many queries as there are slots run at the same time again; a writer looks at them, then a reader at writers.
    await ask('CREATE TABLE seen (n UInt32) ENGINE = Memory');
    const count = "count() FROM system.processes WHERE query LIKE '%occ' || 'upies%'";
    const readers = Array.from({ length: SLOTS }, () => ask("SELECT 'occupies', sleep(1.5)"));
    for (let i = 0; i < 10; i++, await delay(100)) await ask(`INSERT INTO seen SELECT ${count}`);
    await Promise.all(readers);
    assert.equal(await ask('SELECT max(n) FROM seen'), `${SLOTS}\n`);
    const writers = Array.from({ length: writeSlotsFor(SLOTS) }, () => ask("INSERT INTO seen SELECT sleep(1.5) + length('occupies')"));
    let most = 0;
    for (let i = 0; i < 10; i++, await delay(100)) most = Math.max(most, Number(await ask(`SELECT ${count}`)));
    await Promise.all(writers);
    assert.equal(most, writeSlotsFor(SLOTS));
    assert.deepEqual(
      (await readdir(join(engine.directory, 'spool'))).filter((name) => !name.startsWith('result-')),
      [],
    );
  });
});

test('a client that stops reading loses its query, and the slot is free again', async (t) => {
  const impatient = await startTestEngine({ slots: 1, stallMs: 500 });
  t.after(() => impatient.close());
  const response = await fetch(impatient.url, {
    method: 'POST',
    headers: { 'x-clickhouse-user': impatient.user, 'x-clickhouse-key': impatient.password },
    body: 'SELECT number FROM numbers(1000000000)',
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  // The only slot: this answer comes when the first query has been given up.
  const store = connectTo(impatient);
  assert.deepEqual(await store.rows('SELECT 1 AS x'), [{ x: 1 }]);
  await assert.rejects(async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read());
  });
  await store.close();
});
