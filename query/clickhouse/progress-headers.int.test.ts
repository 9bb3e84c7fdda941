/** Progress as header lines while a query runs, as ClickHouse sends it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { PASSWORDS, startTestEndpoint, type TestEndpoint } from './endpoint-for-tests.ts';
import { progressInterval } from './progress-headers.ts';

/** Some hundred million rows joined: long enough for a line on any machine. */
const FROM = 'FROM nodes AS a, nodes AS b, nodes AS c, nodes AS d, nodes AS e, nodes AS f';
const SLOW = `SELECT count() AS n ${FROM}`;
const N = String(24 ** 6);
const WANTED = 'send_progress_in_http_headers=1&http_headers_progress_interval_ms=10';

let endpoint: TestEndpoint;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
before(async () => {
  endpoint = await startTestEndpoint({ timeoutMs: 240_000 });
});
after(async () => {
  agent.destroy();
  await endpoint.close();
});

async function ask(query: string, parameters: string): Promise<{ answer: IncomingMessage; body: string }> {
  const sent = request(`${endpoint.url}/clickhouse/?${parameters}`, { agent, method: 'POST', auth: `x:${PASSWORDS.default}` });
  sent.end(query);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { answer, body: await text(answer) };
}

const linesOf = ({ rawHeaders }: IncomingMessage): Record<string, string>[] =>
  rawHeaders.flatMap((name, at) => (at % 2 === 0 && name === 'X-ClickHouse-Progress' ? [JSON.parse(rawHeaders[at + 1] as string) as Record<string, string>] : [])); // prettier-ignore

test('lines come while the query runs, before the rest of the head', async () => {
  const socket = connect(Number(new URL(endpoint.url).port), '127.0.0.1');
  const key = Buffer.from(`x:${PASSWORDS.default}`).toString('base64');
  socket.write(`POST /clickhouse/?${WANTED} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ${key}\r\nConnection: close\r\nContent-Length: ${SLOW.length}\r\n\r\n${SLOW}`); // prettier-ignore
  const [first] = (await once(socket, 'data')) as [Buffer];
  assert.match(first.toString(), /^HTTP\/1\.1 200 OK\r\n(X-ClickHouse-Progress: \{[^\r\n]*\}\r\n)*$/);
  assert.match(await text(socket), /\r\nX-ClickHouse-Summary: [^]*\r\n\r\n/);
});

test('the answer is the same as without, and the connection serves the next', async () => {
  const plain = await ask(SLOW, 'default_format=TSV');
  assert.deepEqual([plain.body, linesOf(plain.answer)], [`${N}\n`, []]);
  const { answer, body } = await ask(SLOW, `${WANTED}&default_format=TSV`);
  assert.deepEqual([answer.statusCode, body], [200, `${N}\n`]);
  const lines = linesOf(answer);
  assert.ok(lines.length > 0 && lines.length <= 96, String(lines.length));
  const elapsed = lines.map((line) => Number(line['elapsed_ns']));
  assert.deepEqual(
    elapsed,
    elapsed.toSorted((a, b) => a - b),
  );
  assert.deepEqual(Object.keys(lines[0] ?? {}), ['read_rows', 'read_bytes', 'total_rows_to_read', 'elapsed_ns']);
  assert.ok(JSON.parse(String(answer.headers['x-clickhouse-summary'])) !== null);
  const next = await ask('SELECT 1', `${WANTED}&default_format=TSV`);
  assert.deepEqual([next.answer.statusCode, next.body], [200, '1\n']);
});

test('an error behind the first line is told by its header, one before it by its status too', async () => {
  const late = await ask(`SELECT throwIf(count() > 0) ${FROM}`, WANTED);
  assert.deepEqual([late.answer.statusCode, late.answer.headers['x-clickhouse-exception-code']], [200, '395']);
  assert.match(late.body, /Code: 395/);
  const early = await ask('SELECT nothing_of_that_name FROM nodes', WANTED);
  assert.deepEqual([early.answer.statusCode, early.answer.headers['x-clickhouse-exception-code']], [404, '47']);
});

test('the unmodified client reads its rows past the lines', async () => {
  const client = createClient({ url: endpoint.url, pathname: '/clickhouse', username: 'x', password: PASSWORDS.default, request_timeout: 240_000 });
  const settings = { send_progress_in_http_headers: 1, http_headers_progress_interval_ms: '20' } as const;
  const answer = await client.query({ query: SLOW, format: 'JSONEachRow', clickhouse_settings: settings });
  assert.deepEqual(await answer.json(), [{ n: 24 ** 6 }]);
  await client.close();
}); // prettier-ignore

test('who asks for progress, and how often', () => {
  const of = (text: string): number | null => progressInterval(new URLSearchParams(text));
  assert.deepEqual(
    ['', 'send_progress_in_http_headers=0', 'http_headers_progress_interval_ms=5'].map(of),
    [null, null, null],
  );
  const on = 'send_progress_in_http_headers=1&http_headers_progress_interval_ms';
  assert.deepEqual(['send_progress_in_http_headers=true', `${on}=5`, `${on}=120000`, `${on}=x`, `${on}=1e99`].map(of), [100, 10, 120_000, 100, 600_000]);
}); // prettier-ignore

test('a query of a megabyte is refused with the remedy', async () => {
  for (const [bytes, says] of [
    [1_000_000, /the query is longer than 131072 bytes: pass long lists as params/],
    [1_100_000, /The body is longer than 1048576 bytes: pass long lists as parameters/],
  ] as const) {
    const { answer, body } = await ask(`SELECT '${'x'.repeat(bytes)}'`, '');
    assert.ok((answer.statusCode ?? 0) >= 400 && (answer.statusCode ?? 0) < 500, String(answer.statusCode));
    assert.match(body, says);
  }
});
