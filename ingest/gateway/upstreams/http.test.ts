import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createUpstreamHttp, type UpstreamExchange, type UpstreamHttp } from './http.ts';

const IDLE_MS = 60_000;

/** Sends and resolves with the error; throws when the listener is told while `send` still runs. */
async function failing(http: UpstreamHttp, url: string, headers: Record<string, string>, reason?: Error): Promise<Error> {
  const { promise, resolve, reject } = Promise.withResolvers<Error>();
  let exchange: UpstreamExchange | null = null;
  const told = (): void => {
    if (exchange === null) reject(new Error('told before send returned'));
  };
  const onError = (error: Error): void => {
    told();
    resolve(error);
  };
  const listener = { onHead: told, onChunk: () => true, onEnd: () => reject(new Error('it ended well')), onError };
  exchange = http.send({ method: 'POST', url, headers, body: Buffer.from('{}'), firstByteMs: IDLE_MS, idleMs: IDLE_MS }, listener);
  if (reason !== undefined) exchange.abort(reason);
  return promise;
}

test('whatever fails, and however soon, is told after send has returned, once', async () => {
  const server = createServer(() => {});
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1' }, resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/tokenize`;
  const http = createUpstreamHttp(10_000);
  try {
    const over = new Error('over');
    assert.equal((await failing(http, url, { 'x-name': 'line\nbreak' })).message.includes('UND_ERR_INVALID_ARG'), true);
    assert.equal(await failing(http, url, {}, over), over);
    await http.close();
    assert.match((await failing(http, url, {})).message, /UND_ERR_DESTROYED/);
  } finally {
    await http.close();
    server.closeAllConnections();
    server.close();
  }
});
