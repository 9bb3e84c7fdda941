/** The same suites over a real ClickHouse server: TAPEDECK_CLICKHOUSE_URL (with user and password in it), else a container where Docker runs. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { GenericContainer, Wait } from 'testcontainers';
import { columnStoreContract } from '../../column-store.contract.ts';
import { projectUsersContract } from '../../project-users/project-users.contract.ts';
import type { Address } from '../engine-for-tests.ts';
import { connectTo } from '../engine-for-tests.ts';
import { conformance } from './conformance.ts';

const IMAGE = 'clickhouse/clickhouse-server:26.7';

type Server = Address & { close(): Promise<void> };

async function findServer(): Promise<Server | { missing: string }> {
  const given = process.env['TAPEDECK_CLICKHOUSE_URL'];
  if (given !== undefined) {
    const { origin, username, password } = new URL(given);
    return { url: origin, user: decodeURIComponent(username) || 'default', password: decodeURIComponent(password), close: async () => {} };
  }
  try {
    await promisify(execFile)('docker', ['info'], { timeout: 10_000 });
  } catch {
    return { missing: 'no ClickHouse server: TAPEDECK_CLICKHOUSE_URL is not set and Docker does not answer' };
  }
  const password = randomUUID();
  const container = await new GenericContainer(IMAGE)
    .withEnvironment({ CLICKHOUSE_PASSWORD: password, CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT: '1' })
    .withExposedPorts(8123)
    .withWaitStrategy(Wait.forHttp('/ping', 8123))
    .start();
  const url = `http://${container.getHost()}:${container.getMappedPort(8123)}`;
  return { url, user: 'default', password, close: async () => void (await container.stop()) };
}

const server = await findServer();
if ('missing' in server) {
  test('a ClickHouse server', { skip: server.missing }, () => {});
} else {
  conformance('a ClickHouse server', async () => ({ ...server, close: async () => {} }));
  projectUsersContract('a ClickHouse server', server);
  columnStoreContract('HTTP to a ClickHouse server', async () => {
    const database = `contract_${randomUUID().slice(0, 8)}`;
    const observer = connectTo(server);
    await observer.command(`CREATE DATABASE ${database}`);
    const store = connectTo(server, database);
    return {
      store,
      observer,
      database,
      close: async () => {
        await store.command(`DROP DATABASE ${database}`);
        await store.close();
        await server.close();
      },
    };
  });
}
