/** Pieces that are written past Node's own framing arrive as if they were not: chunked, over HTTP/1.0, behind another answer on the same connection, and to a slow reader. */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { writeChunk } from './write-chunk.ts';

let server: Server;
let port = 0;
let pieces: readonly Buffer[] = [];
let full = 0;
let drained = 0;

before(async () => {
  server = createServer((_request, response) => {
    const mine = pieces;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    const go = async (): Promise<void> => {
      for (const [i, piece] of mine.slice(0, -1).entries()) {
        // one in seven goes Node's own way, as the last one does
        const fits = i % 7 === 6 ? (response.write(piece), true) : writeChunk(response, piece, () => drained++);
        if (!fits) {
          const before = drained;
          full++;
          for (let tries = 0; drained === before && tries < 6_000; tries++) await sleep(5);
        }
        if (i % 3 === 0) await sleep(0);
      }
      response.end(mine.at(-1));
    };
    void go();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ({ port } = server.address() as AddressInfo);
});
after(() => new Promise((resolve) => server.close(resolve)));

function talk(text: string): { socket: Socket; all: Promise<string> } {
  const socket = connect(port, '127.0.0.1');
  const parts: Buffer[] = [];
  socket.write(text);
  socket.on('data', (part: Buffer) => parts.push(part));
  const all = new Promise<string>((resolve, reject) => {
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(parts).toString('latin1')));
  });
  return { socket, all };
}

test('whatever the pieces, they arrive whole and in order', async () => {
  const piece = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 17_000, maxLength: 17_100 })).map((b) => Buffer.from(b)); // prettier-ignore
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 30 }), async (list) => {
      pieces = list;
      const answer = await fetch(`http://127.0.0.1:${port}/`);
      assert.deepEqual(Buffer.from(await answer.arrayBuffer()), Buffer.concat(list));
    }),
    { numRuns: 60 },
  );
});

test('over HTTP/1.0 there are no chunks; behind another answer on the same connection it waits its turn', async () => {
  pieces = ['one ', 'two ', 'three'].map((text) => Buffer.from(text));
  const old = await talk('GET / HTTP/1.0\r\n\r\n').all;
  assert.match(old, /\r\n\r\none two three$/);
  const ask = 'GET / HTTP/1.1\r\nhost: x\r\n';
  const both = await talk(`${ask}\r\n${ask}connection: close\r\n\r\n`).all;
  const bodies = both.split(/HTTP\/1\.1 200 OK[\s\S]*?\r\n\r\n/).slice(1);
  const framed = '4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n';
  assert.deepEqual(bodies, [framed, framed]);
});

test('a slow reader is told of, and so is when it goes on', async () => {
  pieces = Array.from({ length: 3_000 }, (_, i) => Buffer.alloc(8_000, i % 251));
  [full, drained] = [0, 0];
  const { socket, all } = talk('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
  socket.pause();
  for (let tries = 0; full === 0 && tries < 6_000; tries++) await sleep(5);
  assert.ok(full > 0, 'its buffer never filled');
  assert.equal(drained, 0);
  socket.resume();
  const text = await all;
  assert.ok(drained > 0);
  assert.equal(drained, full);
  assert.equal(text.length - text.indexOf('\r\n\r\n') - 4, 3_000 * (8_000 + '1f40\r\n\r\n'.length) + '0\r\n\r\n'.length);
});
