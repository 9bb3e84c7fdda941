/** The feed protocol against a server: one of our own, or the one that TAPEDECK_FEED_URL names. */
import { after, before, describe } from 'node:test';
import { startServer, temporaryFolder, type TestServer } from '../../../e2e/server.ts';
import { documentedFetch, type Document } from '../../../e2e/client/documented.ts';
import type { Under } from './conformance.ts';
import { feedsContract } from './feeds.contract.ts';
import { producersContract } from './producers.contract.ts';
import { readingContract } from './reading.contract.ts';
import { trainerContract } from './trainer.contract.ts';

const given = process.env['TAPEDECK_FEED_URL'];

describe('the feed protocol', () => {
  let server: TestServer | null = null;
  const folder = temporaryFolder('conformance');
  let judged: ReturnType<typeof documentedFetch> | null = null;
  const under: Under = { url: () => given ?? (server as TestServer).url, fetch: (request) => (judged ?? globalThis).fetch(request) };

  before(async () => {
    if (given !== undefined) return;
    server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed' });
    await server.ready();
    judged = documentedFetch((await (await fetch(`${server.url}/docs/json`)).json()) as Document);
  });
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  feedsContract(under);
  readingContract(under);
  trainerContract(under);
  producersContract(under);
});
