/** Clients that break HTTP itself: what comes back, what is in the log afterwards, and that the server still serves. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { openEdge, sampleEvent, talk, type Edge } from './edge-under-test.ts';

let edge: Edge;
before(async () => {
  edge = await openEdge({
    limits: { bodyIdleMs: 300, bodyMs: 900, bodyBytes: 1 << 20, inFlightBytes: 4 << 20 },
    server: { headersMs: 1000, idleSocketMs: 500, headerBytes: 8192 },
  });
});
after(() => edge.close());
afterEach(async () => {
  assert.equal((await edge.post(sampleEvent())).status, 200, 'the server still serves');
  const inFlight = /tapedeck_ingest_bytes_in_flight (\d+)/.exec(await edge.registry.metrics())?.[1];
  assert.equal(inFlight, '0', 'nothing is held');
});

const HOST = 'host: x\r\n';
const head = (headers: string): string => `POST /v1/events HTTP/1.1\r\n${HOST}content-type: application/json\r\n${headers}\r\n`;
const isStored = async (id: string): Promise<boolean> => (await edge.stored()).some((stored) => stored.id === id);

test('a body that stops coming is slow_body after the idle time', async () => {
  const event = sampleEvent();
  const body = JSON.stringify(event);
  const answer = await talk(await edge.socket(), [head(`content-length: ${body.length + 1}\r\n`), body]);
  assert.match(answer, /^HTTP\/1.1 408 /);
  assert.match(answer, /"slow_body","message":"no byte of the body came for 300 ms \(after \d+ bytes\)/);
  assert.match(answer, /connection: close/i);
  assert.equal(await isStored(event.id), false);
});

test('slow loris: a byte now and then is stopped by the time for the whole body', async () => {
  const socket = await edge.socket();
  const answer = talk(socket, [head('transfer-encoding: chunked\r\n')], 5000);
  const drip = setInterval(() => socket.write('1\r\n[\r\n'), 100);
  assert.match(await answer, /408 [\s\S]*"slow_body","message":"the body took longer than 900 ms/);
  clearInterval(drip);
});

test('slow headers are answered and cut', async () => {
  const socket = await edge.socket();
  const answer = talk(socket, ['POST /v1/events HTTP/1.1\r\nhost: x\r\n'], 5000);
  const drip = setInterval(() => socket.writable && socket.write('x: y\r\n'), 100);
  assert.match(await answer, /408 [\s\S]*"slow_body"/);
  clearInterval(drip);
});

test('an idle kept-alive connection is closed', async () => {
  const socket = await edge.socket();
  const started = performance.now();
  const answer = await talk(socket, [`GET /healthz HTTP/1.1\r\n${HOST}\r\n`], 5000);
  assert.match(answer, /"ok"/);
  assert.ok(performance.now() - started < 4000);
});

test('content-length shorter than the body: the rest is no request', async () => {
  const body = JSON.stringify(sampleEvent());
  const answer = await talk(await edge.socket(), [head(`content-length: ${body.length - 5}\r\n`), body]);
  assert.match(answer, /^HTTP\/1.1 400 Bad Request[\s\S]*connection: close[\s\S]*"invalid_json"/);
  assert.equal(answer.split('HTTP/1.1').length, 2, 'one answer, then the connection is closed');
});

test('content-length that is no number, twice, or beside chunked is refused', async () => {
  for (const headers of [
    'content-length: ten\r\n',
    'content-length: -1\r\n',
    'content-length: 2\r\ncontent-length: 3\r\n',
    'content-length: 2\r\ntransfer-encoding: chunked\r\n',
  ]) {
    const answer = await talk(await edge.socket(), [head(headers), '[]'], 1000);
    assert.match(answer, /^HTTP\/1.1 400 [\s\S]*"bad_request"/, headers);
  }
});

test('a connection cut in the middle of a body stores nothing', async () => {
  const event = sampleEvent();
  const body = JSON.stringify(event);
  for (const cut of [0, 1, body.length >> 1, body.length - 1]) {
    const socket = await edge.socket();
    socket.write(head(`content-length: ${body.length}\r\n`) + body.slice(0, cut));
    await delay(20);
    socket.destroy();
    await once(socket, 'close');
  }
  const half = await edge.socket();
  const answer = talk(half, [head(`content-length: ${body.length}\r\n`), body.slice(0, 9)]);
  half.end();
  assert.match(await answer, /"truncated_body"|^$/);
  assert.equal(await isStored(event.id), false);
});

test('chunked: good chunks pass; garbage in a chunk size or behind the body is refused', async () => {
  const event = sampleEvent();
  const body = JSON.stringify(event);
  const chunks = Array.from(body, (c) => `1\r\n${c}\r\n`).join('');
  const close = 'connection: close\r\ntransfer-encoding: chunked\r\n';
  assert.match(await talk(await edge.socket(), [head(close), chunks, '0\r\n\r\n']), /200 OK[\s\S]*"accepted":1/);
  const other = JSON.stringify(sampleEvent());
  const broken = await talk(await edge.socket(), [head(close), `5\r\n${other.slice(0, 5)}\r\nzz\r\nabc`], 1000);
  assert.match(broken, /^HTTP\/1.1 400 [\s\S]*"bad_request"/);
  const trailing = await talk(
    await edge.socket(),
    [head('transfer-encoding: chunked\r\n'), `${other.length.toString(16)}\r\n${other}\r\n0\r\n\r\n`, 'garbage garbage\r\n\r\n'],
    1000,
  );
  assert.match(trailing, /^HTTP\/1.1 200 OK[\s\S]*connection: close[\s\S]*"accepted":1/, 'what was stored is not answered with an error');
  assert.equal(trailing.split('HTTP/1.1').length, 2);
});

test('a chunked body over the limit is body_too_large, and the client that goes on sending reads the answer', async () => {
  const socket = await edge.socket();
  const answer = talk(socket, [head('transfer-encoding: chunked\r\n')], 4000);
  const piece = `10000\r\n${'x'.repeat(65_536)}\r\n`;
  for (let i = 0; i < 40 && socket.writable; i++) socket.write(piece);
  assert.match(
    await answer,
    /^HTTP\/1.1 413 [\s\S]*"body_too_large","message":"the body has more than 1048576 bytes; send smaller batches"/,
  );
});

test('a client that sends its whole refused body before it reads still gets the answer, not a reset', async () => {
  const size = 3 << 19;
  const socket = await edge.socket();
  let failure: unknown = null;
  socket.on('error', (error) => (failure = error)).pause();
  socket.write(head(`content-length: ${size}\r\n`));
  for (let sent = 0; sent < size; sent += size / 24) {
    socket.write('x'.repeat(size / 24));
    await delay(4);
  }
  const answer = await talk(socket, []);
  assert.equal(failure, null);
  assert.match(answer, /^HTTP\/1.1 413 [\s\S]*"body_too_large"/);
});

test('a content-length over the limit is refused before the body comes', async () => {
  const started = performance.now();
  const socket = await edge.socket();
  let answer = '';
  socket.setEncoding('latin1').on('data', (text: string) => (answer += text));
  socket.write(head('content-length: 99999999999\r\n'));
  while (!answer.includes('body_too_large') && performance.now() - started < 2000) await delay(5);
  assert.match(answer, /^HTTP\/1.1 413 /);
  assert.ok(performance.now() - started < 1000);
  socket.destroy();
});

test('too many and too long headers are 431 in our shape', async () => {
  const answer = await talk(await edge.socket(), [`GET /healthz HTTP/1.1\r\n${HOST}${'x: y\r\n'.repeat(3000)}\r\n`], 1000);
  assert.match(answer, /^HTTP\/1.1 431 [\s\S]*"bad_request","message":"the headers are too large/);
});

test('bytes that are not HTTP at all', async () => {
  for (const bytes of [Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]), Buffer.alloc(500, 0xff), Buffer.from('\r\n\r\n\r\nhello')]) {
    const answer = await talk(await edge.socket(), [bytes], 500);
    assert.match(answer, /^HTTP\/1.1 400 [\s\S]*"bad_request"|^$/);
  }
});

test('a flood of half requests holds no memory and stops nobody else', async () => {
  const sockets = await Promise.all(Array.from({ length: 100 }, () => edge.socket()));
  for (const socket of sockets) socket.on('error', () => {}).write(head('content-length: 1000\r\n'));
  await delay(50);
  assert.equal((await edge.post(sampleEvent())).status, 200);
  await delay(600);
  for (const socket of sockets) socket.destroy();
  await delay(50);
});
