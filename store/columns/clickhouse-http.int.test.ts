import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { isTapedeckError } from '../../base/errors.ts';
import { columnStoreContract } from './column-store.contract.ts';
import { connectTo, startTestEngine } from './engine/engine-for-tests.ts';

columnStoreContract('HTTP to the embedded engine', async () => {
  const engine = await startTestEngine();
  const observer = connectTo(engine);
  await observer.command('CREATE DATABASE contract');
  const store = connectTo(engine, 'contract');
  return {
    store,
    observer,
    database: 'contract',
    close: async () => {
      await store.close();
      await engine.close();
    },
  };
});

test('a server that is not there, hangs up, or speaks something else is unavailable: repeat it', async () => {
  const isRetriable = (error: unknown): boolean => isTapedeckError(error, 'store_unavailable') && error.retriable;
  const server = createServer((request, response) => {
    if (request.url?.includes('hang') === true) request.socket.destroy();
    else response.writeHead(502).end('<html>bad gateway</html>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const [address, queryId] of [
    [url, 'x'],
    [url, 'hang'],
    ['http://127.0.0.1:9', 'x'],
  ] as const) {
    const store = connectTo({ url: address, user: 'u', password: 'p' });
    await assert.rejects(store.rows('SELECT 1', { queryId }), isRetriable);
    await assert.rejects(store.command('SELECT 1', { queryId }), isRetriable);
    await assert.rejects(store.insertNative('t', ['a'], Buffer.alloc(10_000_000), { queryId }), isRetriable);
    await assert.rejects(store.ping(), isRetriable);
    await store.close();
  }
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
