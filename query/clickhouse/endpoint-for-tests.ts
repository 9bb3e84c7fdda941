/** The endpoint over the real engine, with the views of two projects and a key for each: projects `default` and `other`, which holds a secret. */
import fastify, { type FastifyInstance } from 'fastify';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { grantAccess } from '../../store/keys/request-access.ts';
import { projectDatabase } from '../../store/columns/project-database.ts';
import { createQuerySlots } from '../sql/query-slots.ts';
import { DEFAULT_SQL_LIMITS, type SqlLimits } from '../sql/limits.ts';
import { startTwoProjects, type TwoProjects } from '../sql/fixtures/two-projects.ts';
import { clickHouseRoutes } from './endpoint.ts';

export type TestEndpoint = {
  readonly url: string;
  readonly world: TwoProjects;
  /** Passwords of keys. The check of real keys is at the edge; here a name stands for a project. */
  readonly passwords: { readonly default: string; readonly other: string; readonly empty: string };
  close(): Promise<void>;
};

export const PASSWORDS = { default: 'key-of-default', other: 'key-of-other', empty: 'key-of-empty' } as const;

export async function startTestEndpoint(limits: Partial<SqlLimits> = {}): Promise<TestEndpoint> {
  const world = await startTwoProjects();
  const all = { ...DEFAULT_SQL_LIMITS, ...limits };
  const app: FastifyInstance = fastify({ logger: false });
  app.addHook('onRequest', async (request, reply) => {
    if (request.url.endsWith('/ping')) return;
    const basic = Buffer.from(/^Basic (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? '', 'base64').toString();
    const password = basic.slice(basic.indexOf(':') + 1) || request.headers['x-clickhouse-key'];
    const [project] = Object.entries(PASSWORDS).find(([, each]) => each === password) ?? [];
    if (project === undefined) {
      void reply
        .code(403)
        .header('x-clickhouse-exception-code', '516')
        .send('Code: 516. DB::Exception: no such key. (AUTHENTICATION_FAILED)\n');
      return reply;
    }
    delete request.raw.headers.authorization;
    delete request.raw.headers['x-clickhouse-key'];
    grantAccess(request.raw, { key: project, project, role: 'read', limits: {} });
    return undefined;
  });
  await app.register(clickHouseRoutes, {
    store: world.store,
    limits: all,
    slots: createQuerySlots(all.concurrent),
    ensureProject: async (project) => world.store.command(`CREATE DATABASE IF NOT EXISTS ${projectDatabase(project)}`),
    clock: systemClock,
    random: systemRandom,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  return {
    url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`,
    world,
    passwords: PASSWORDS,
    close: async () => {
      await app.close();
      await world.close();
    },
  };
}
