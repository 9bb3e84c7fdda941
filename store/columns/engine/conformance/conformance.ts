/**
 * What an unmodified `@clickhouse/client` may expect of a ClickHouse server, run over the engine and, where one can be had, over a real server: the same
 * suite, the same answers.
 */
import { randomUUID } from 'node:crypto';
import { after, before, describe } from 'node:test';
import type { ClickHouseClient } from '@clickhouse/client';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import type { Access, Target } from './access.contract.ts';
import { answers, context } from './answers.contract.ts';
import { cancelling } from './cancelling.contract.ts';
import { failures } from './failures.contract.ts';
import { formats } from './formats.contract.ts';
import { inserts } from './inserts.contract.ts';
import { load } from './load.contract.ts';
import { parameters, sessions } from './state.contract.ts';

export function conformance(name: string, open: () => Promise<Target>): void {
  describe(`${name}: @clickhouse/client`, () => {
    let target: Target;
    let client: ClickHouseClient;
    const database = `conformance_${randomUUID().slice(0, 8)}`;
    const connect = (options: Parameters<typeof createClient>[0] = {}): ClickHouseClient =>
      createClient({
        url: target.url,
        username: target.user,
        password: target.password,
        database,
        log: { level: ClickHouseLogLevel.OFF },
        ...options,
      });
    before(async () => {
      target = await open();
      const first = connect({ database: 'default' });
      await first.command({ query: `CREATE DATABASE ${database}` });
      await first.close();
      client = connect();
    });
    after(async () => {
      await client?.command({ query: `DROP DATABASE IF EXISTS ${database}` });
      await client?.close();
      await target?.close();
    });
    const get: Access = { client: () => client, connect: (options) => connect(options), target: () => target };
    answers(get);
    context(get);
    formats(get);
    inserts(get);
    parameters(get);
    sessions(get);
    cancelling(get);
    failures(get);
    load(get);
  });
}
